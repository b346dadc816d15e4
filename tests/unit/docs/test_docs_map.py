"""The map of packages in the architecture's overview has every package, on the layer that the import contract gives it."""

from __future__ import annotations

import re
import tomllib
from typing import Final

import pytest

from tests.unit.docs.pages import REPOSITORY

pytestmark = pytest.mark.unit

OVERVIEW: Final = REPOSITORY / "docs" / "architecture" / "overview.md"
ROW: Final = re.compile(r"^\| (\d+) \| `bmq/(\w+)` \| (.+) \| `([\w/]+)`(?:, `([\w/]+)`)? \|$", re.MULTILINE)


def test_the_map_has_the_layers_of_the_import_contract() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(one["layers"] for one in contracts if one["type"] == "layers")
    wanted = {name: number for number, layer in enumerate(layers, 1) for name in layer.split(" | ")}
    assert {name: int(number) for number, name, *_ in ROW.findall(OVERVIEW.read_text())} == wanted


def test_the_entries_of_the_map_are_modules() -> None:
    for _, package, _, *entries in ROW.findall(OVERVIEW.read_text()):
        for entry in filter(None, entries):
            is_module = entry == package and not (REPOSITORY / "bmq" / package).is_dir()
            place = REPOSITORY / "bmq" / (f"{package}.py" if is_module else f"{package}/{entry}.py")
            assert place.exists(), place


def test_every_decision_is_listed_and_has_its_three_parts() -> None:
    directory = REPOSITORY / "docs" / "decisions"
    pages = sorted(page for page in directory.glob("*.md") if page.name != "README.md")
    listed = re.findall(r"^\| \[(\d+)\]\((.+)\) \| (.+) \|$", (directory / "README.md").read_text(), re.MULTILINE)
    assert [name for _, name, _ in listed] == [page.name for page in pages]
    for number, (page, (listed_number, _, title)) in enumerate(zip(pages, listed, strict=True), 1):
        text = page.read_text()
        assert int(listed_number) == int(page.name[:4]) == number
        assert text.startswith(f"# {number}. {title}\n")
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Consequence"]
