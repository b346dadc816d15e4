"""Links of pages that leave docs: on the site their targets are below `repository/`. Decisions only.

A page is named by its path in the repository, `docs/CLI.md`. On the site a page of docs is at its path within docs.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Final

DOCS: Final = "docs/"
OUTSIDE: Final = "repository/"
_FENCE: Final = re.compile(r"^\s*(```|~~~)")
# Code between marks is taken first, and is no link.
_LINK: Final = re.compile(r"`[^`]*`|(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")


def place_on_site(path: str) -> str:
    return path.removeprefix(DOCS) if path.startswith(DOCS) else OUTSIDE + path


def path_of(place: str) -> str:
    """The other way round."""
    return place.removeprefix(OUTSIDE) if place.startswith(OUTSIDE) else DOCS + place


def targets(page: str, text: str) -> Iterator[str]:
    """Paths in the repository of what the page links to, without anchors, outside of code blocks."""
    is_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            is_code = not is_code
        elif not is_code:
            for found in _LINK.finditer(line):
                if found[2]:
                    yield _resolved(page, found[2])


def with_links_of_site(page: str, text: str, is_there: Callable[[str], bool]) -> str:
    """The text with links that hold on the site. `is_there`: whether the repository has this path."""

    def changed(found: re.Match[str]) -> str:
        if not found[2]:
            return found[0]
        path = _resolved(page, found[2])
        if not is_there(path) or (page.startswith(DOCS) and path.startswith(DOCS)):
            return found[0]
        here = posixpath.dirname(place_on_site(page)) or "."
        return f"{found[1]}{posixpath.relpath(place_on_site(path), here)}{found[3] or ''}{found[4]}"

    lines, is_code = [], False
    for line in text.split("\n"):
        if _FENCE.match(line):
            is_code = not is_code
        lines.append(line if is_code else _LINK.sub(changed, line))
    return "\n".join(lines)


def _resolved(page: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
