"""No relative link of a document is dead, whether it names a file or a heading."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.docs.links import anchors, relative_links
from tests.unit.docs.pages import REPOSITORY, documents, name_of

pytestmark = pytest.mark.unit


def dead_links(page: Path) -> list[str]:
    """One line for each dead link of the page."""
    found = []
    for number, target in relative_links(page.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or not file.is_relative_to(REPOSITORY):
            found.append(f"{number}: {target}: no such file")
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            found.append(f"{number}: {target}: no such heading")
    return found


@pytest.mark.parametrize("page", documents(), ids=name_of)
def test_no_relative_link_is_dead(page: Path) -> None:
    assert dead_links(page) == []


def test_dead_files_and_headings_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Top\n[a](gone.md) [b](#top) [c](#gone) `[d](gone.md)`\n```\n[e](gone.md)\n```\n[f](https://x.example)\n"
    )
    assert list(relative_links(page.read_text())) == [(2, "gone.md"), (2, "#top"), (2, "#gone")]


def test_anchors_are_those_of_github() -> None:
    text = "# A [link](x.md), `code` & more\n## Same\n## Same\n```\n# not a heading\n```\n"
    assert anchors(text) == {"a-link-code--more", "same", "same-1"}


def test_every_page_of_the_documentation_is_linked_from_another() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in documents()
        for _, target in relative_links(page.read_text(encoding="utf-8"))
    }
    pages = {page for page in documents() if page.is_relative_to(REPOSITORY / "docs")}
    # The old address of the architecture stays for links from elsewhere.
    assert pages - linked - {REPOSITORY / "docs" / "ARCHITECTURE.md"} == set()
