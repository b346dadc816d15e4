"""The documents of the repository, for the tests that read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).parents[3]

_FENCE: Final = re.compile(r"^(```|~~~)")
_CODE: Final = re.compile(r"`[^`]*`")


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


def without_code(line: str) -> str:
    """The line with every `code span` replaced by a word."""
    return _CODE.sub("code", line)
