"""The changelog knows the package's version, and the package's description has what an index of packages needs."""

from __future__ import annotations

import re
import tomllib

import pytest

from bmq.protocol.apis import APIS
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS
from bmq.proxy.handlers import load_all
from tests.unit.docs.pages import REPOSITORY

pytestmark = pytest.mark.unit


def test_the_newest_release_of_the_changelog_is_the_version_of_the_package() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\]", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[:2] == ["Unreleased", version]
    assert f"Version {version}." in (REPOSITORY / "README.md").read_text()


def test_the_readme_is_short_and_begins_with_a_command_and_a_picture() -> None:
    lines = (REPOSITORY / "README.md").read_text().splitlines()
    assert len(lines) <= 200
    first_screen = "\n".join(lines[:25])
    assert "make run" in first_screen
    assert "](docs/architecture.svg)" in first_screen


def test_the_readme_counts_the_served_apis() -> None:
    load_all()
    served = [api_key for api_key in APIS if api_key in HANDLERS or api_key in HOT_HANDLERS]
    assert f"bmq serves {len(served)} APIs of Kafka" in (REPOSITORY / "README.md").read_text()
