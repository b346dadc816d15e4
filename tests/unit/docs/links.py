"""Relative links of a Markdown page, and the anchors that its headings make. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.unit.docs.pages import prose_lines

_LINK: Final = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_HEADING: Final = re.compile(r"^#{1,6}\s+(.*?)\s*#*$")
_LINK_TEXT: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def relative_links(text: str) -> Iterator[tuple[int, str]]:
    """Line number and target of each link that has no scheme, outside of code blocks."""
    for number, line in prose_lines(text):
        for target in _LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if not _SCHEME.match(target):
                yield number, target


def anchors(text: str) -> set[str]:
    """The anchors of the headings, as GitHub makes them: lower case, spaces to hyphens, other marks left out."""
    found: dict[str, int] = {}
    names: set[str] = set()
    for _, line in prose_lines(text):
        heading = _HEADING.match(line)
        if heading is None:
            continue
        plain = _LINK_TEXT.sub(r"\1", heading[1]).lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        count = found.get(anchor, 0)
        found[anchor] = count + 1
        names.add(anchor if count == 0 else f"{anchor}-{count}")
    return names
