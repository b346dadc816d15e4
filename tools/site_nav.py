"""The navigation of the site: mkdocs.yml's, with the pages of a directory in place of its name. Decisions only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any


def expanded(nav: Sequence[Any], pages: Iterable[str]) -> list[Any]:
    """`pages`: paths within docs. An entry that ends with `/` becomes its pages, README.md first, each with its own title."""
    found: list[Any] = []
    for entry in nav:
        if isinstance(entry, dict):
            ((title, below),) = entry.items()
            if isinstance(below, str):
                found.append({title: _directory(below, pages) if below.endswith("/") else below})
            else:
                found.append({title: expanded(below, pages)})
        else:
            found.append(entry)
    return found


def _directory(directory: str, pages: Iterable[str]) -> list[str]:
    inside = [page for page in pages if page.startswith(directory)]
    return sorted(inside, key=lambda page: (page != f"{directory}README.md", page))


def pages_of(nav: Sequence[Any]) -> Iterator[str]:
    """Every page that an expanded navigation names, as often as it names it."""
    for entry in nav:
        below = next(iter(entry.values())) if isinstance(entry, dict) else entry
        if isinstance(below, str):
            yield below
        else:
            yield from pages_of(below)
