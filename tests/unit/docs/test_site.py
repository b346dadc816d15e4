"""The site: its navigation names each page once, links hold where they are moved, and GitHub's lists stay lists."""

from __future__ import annotations

from typing import Final

import pytest
import yaml

from tests.unit.docs.links import anchors, relative_links
from tests.unit.docs.pages import REPOSITORY
from tools.site_hooks import docs_pages, is_there, outside_files
from tools.site_links import path_of, place_on_site, targets, with_links_of_site
from tools.site_markdown import for_python_markdown
from tools.site_nav import expanded, pages_of
from tools.site_output import foreign_assets
from tools.site_reference import MODULES, OPENAPI, PYTHON_PAGE, REST_PAGE, python_page, rest_document, rest_page

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

SETTINGS: Final = yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text())
STARTS: Final = ("start/applications.md", "start/data.md", "start/operations.md", "start/contributors.md")


def test_the_navigation_names_each_page_once() -> None:
    named = list(pages_of(expanded(SETTINGS["nav"], docs_pages())))
    outside = [place_on_site(path) for path in outside_files() if path.endswith(".md")]
    assert sorted(named) == sorted([*docs_pages(), *outside, REST_PAGE, PYTHON_PAGE])


def test_each_kind_of_reader_has_a_start_page_that_is_first_in_its_part() -> None:
    parts = [next(iter(entry.values())) for entry in SETTINGS["nav"] if isinstance(entry, dict)]
    assert [part[0] for part in parts if part[0] in STARTS] == list(STARTS)
    linked = {target for _, target in relative_links((REPOSITORY / "docs" / "README.md").read_text())}
    assert set(STARTS) <= linked


def test_directories_stand_for_their_pages() -> None:
    pages = ["a.md", "d/0002.md", "d/0001.md", "d/README.md", "dd/x.md"]
    nav = expanded(["a.md", {"Part": [{"All": "d/"}]}], pages)
    assert list(pages_of(nav)) == ["a.md", "d/README.md", "d/0001.md", "d/0002.md"]


def test_links_of_moved_pages_hold() -> None:
    """On the site every page from outside of docs links to files that are there, and to headings that they have."""
    sources = [f"docs/{page}" for page in docs_pages()] + [path for path in outside_files() if path.endswith(".md")]
    places = {place_on_site(page) for page in sources} | {place_on_site(path) for path in outside_files()}
    dead = []
    for page in sources:
        text = with_links_of_site(page, (REPOSITORY / page).read_text(), is_there)
        found = [target for target in targets(place_on_site(page), text) if not target.startswith("..")]
        dead += [(page, target) for target in found if target not in places and not is_there(path_of(target))]
        own = [target for _, target in relative_links(text) if target.startswith("#")]
        dead += [(page, target) for target in own if target[1:] not in anchors(text)]
    assert dead == []


@pytest.mark.parametrize(
    ("page", "line", "on_site"),
    [
        ("docs/a.md", "[c](../CHANGELOG.md#new)", "[c](repository/CHANGELOG.md#new)"),
        ("docs/start/a.md", "[t](../../tests/README.md)", "[t](../repository/tests/README.md)"),
        ("docs/start/a.md", "[t](../CLI.md#users)", "[t](../CLI.md#users)"),
        ("CHANGELOG.md", "[c](docs/CLI.md#users), [s](SECURITY.md)", "[c](../CLI.md#users), [s](SECURITY.md)"),
        ("docs/a.md", "[x](https://x.example/y) [n](none.md)", "[x](https://x.example/y) [n](none.md)"),
    ],
)
def test_links_out_of_docs_are_moved(page: str, line: str, on_site: str) -> None:
    assert with_links_of_site(page, line, is_there) == on_site


def test_links_in_code_stay() -> None:
    text = "```\n[c](../CHANGELOG.md)\n```\n`[c](../CHANGELOG.md)`\n"
    assert with_links_of_site("docs/a.md", text, is_there) == text
    assert list(targets("docs/a.md", text)) == []


@pytest.mark.parametrize(
    ("github", "python"),
    [
        ("a\n- b\n- c", "a\n\n- b\n- c"),
        ("- b\n  - c\n    - d\n- e", "- b\n    - c\n        - d\n- e"),
        ("1. b\n   - c\n2. d", "1. b\n    - c\n2. d"),
        ("a\n| b |\n|---|", "a\n\n| b |\n|---|"),
        ("a\n```\n- b\n```\nc", "a\n\n```\n- b\n```\n\nc"),
        ("1. a\n   ```\n   b\n     c\n   ```\n2. d", "1. a\n\n    ```\n    b\n      c\n    ```\n\n2. d"),
        ("- a\n  more\n\nb\n- c", "- a\n    more\n\nb\n\n- c"),
    ],
)
def test_githubs_markdown_is_written_for_python(github: str, python: str) -> None:
    assert for_python_markdown(github) == python


@in_campaign
def test_the_reference_has_each_path_of_the_api() -> None:
    document = rest_document()
    page = rest_page(document)
    assert len(document["paths"]) > 50
    assert [path for path in document["paths"] if f"## `{path}`\n" not in page] == []
    assert OPENAPI.rpartition("/")[2] in page


def test_the_python_reference_has_what_documents_import() -> None:
    page = python_page()
    assert [
        module
        for module in MODULES
        if not is_there(f"{module.replace('.', '/')}.py") and not is_there(f"{module.replace('.', '/')}/__init__.py")
    ] == []
    assert page.count("\n::: ") == len(MODULES)


def test_nothing_of_the_theme_comes_from_other_hosts() -> None:
    assert SETTINGS["theme"]["font"] is False
    assert SETTINGS["strict"] is True


@pytest.mark.parametrize(
    ("page", "found"),
    [
        ('<script src="https://x.example/a.js">', ["https://x.example/a.js"]),
        ("<link rel=stylesheet href=//x.example/a.css>", ["//x.example/a.css"]),
        ('<img alt="" src="http://x.example/a.png">', ["http://x.example/a.png"]),
        ('<a href="https://x.example/">x</a><img src="a.png"><link href="assets/a.css">', []),
    ],
)
def test_assets_of_other_hosts_are_found(page: str, found: list[str]) -> None:
    assert foreign_assets(page) == found
