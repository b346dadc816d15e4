"""Modules that documents name by their place in bmq (`broker/partition`, `bmq/log/store.py`) exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.unit.docs.pages import REPOSITORY, documents, name_of

pytestmark = pytest.mark.unit

BMQ: Final = REPOSITORY / "bmq"
PLACE: Final = re.compile(r"`(?:bmq/)?([a-z_]+(?:/[a-z_0-9]+)+)(?:\.py)?/?`")


def is_there(place: str) -> bool:
    return (BMQ / f"{place}.py").exists() or (BMQ / place).exists() or (REPOSITORY / place).exists()


def places_in(page: Path) -> list[str]:
    packages = {directory.name for directory in BMQ.iterdir() if directory.is_dir()}
    return [place for place in PLACE.findall(page.read_text()) if place.split("/")[0] in packages]


def test_named_modules_exist() -> None:
    pages = [page for page in documents() if page.name != "CHANGELOG.md"]
    named = {(name_of(page), place) for page in pages for place in places_in(page)}
    assert ("docs/architecture/data-path.md", "broker/compaction/scheduler") in named, "the pattern finds names"
    assert sorted((page, place) for page, place in named if not is_there(place)) == []
