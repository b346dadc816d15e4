"""The documents of the repository, for the tests that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[3]

_FENCE: Final = re.compile(r"^(```|~~~)")
_CODE: Final = re.compile(r"`[^`]*`")
_LINES_OF_THEIR_OWN: Final = ("#", "|", "<!--")
_BEGIN: Final = re.compile(r"(?:[-*+] |\d+\. |#|\||<!--)")


def documents() -> list[Path]:
    """Every Markdown file that people read: of the top directory, of docs and of tests, by path."""
    found = [*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md"), *(REPOSITORY / "tests").glob("*.md")]
    return sorted(found)


def name_of(page: Path) -> str:
    """The page's path within the repository."""
    return str(page.relative_to(REPOSITORY))


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Number, from 1, and text of each line outside of code blocks."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if _FENCE.match(line.strip()):
            is_code = not is_code
        elif not is_code:
            yield number, line


def sentences(text: str) -> Iterator[tuple[int, str]]:
    """First line number and text of each paragraph, list entry, table row and heading, lines joined by a blank."""
    begin, words = 0, ""
    last = 0
    for number, line in prose_lines(text):
        stripped = line.strip()
        is_new = number != last + 1 or not stripped or _BEGIN.match(stripped) or words.startswith(_LINES_OF_THEIR_OWN)
        if words and is_new:
            yield begin, words
            words = ""
        begin, words = (begin, f"{words} {stripped}") if words else (number, stripped)
        last = number
    if words:
        yield begin, words


def without_code(line: str) -> str:
    """The line with every `code span` replaced by a word."""
    return _CODE.sub("code", line)
