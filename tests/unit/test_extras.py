"""A command that lacks a package says what to type, for the interpreter that runs."""

from __future__ import annotations

import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from bmq import extras
from bmq.extras import install_command, packages_of

pytestmark = pytest.mark.unit

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.mark.parametrize("extra", ["cli", "arrow", "registry", "spark"])
def test_the_command_installs_what_the_project_names(extra: str) -> None:
    named = tomllib.loads(PROJECT.read_text())["project"]["optional-dependencies"]
    requirements = [f'{what}; extra == "{name}"' for name, all_of_it in named.items() for what in all_of_it]
    packages = packages_of(extra, ["uvloop>=0.21", *requirements])
    assert packages
    assert {one for one in named[extra] if not one.startswith("bmq[")} <= set(packages)
    assert not any(one.startswith(("bmq", "uvloop")) for one in packages)


def test_the_command_is_one_of_this_interpreter_and_of_no_index_that_has_bmq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "requires", lambda _: ['fastavro>=1.9; extra == "cli"', 'x<2; extra == "dev"'])
    words = shlex.split(install_command("cli"))
    assert words == [sys.executable, "-m", "pip", "install", "fastavro>=1.9"]


def test_without_metadata_the_project_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> list[str]:
        raise extras.PackageNotFoundError  # type: ignore[attr-defined]

    monkeypatch.setattr(extras, "requires", nothing)
    assert install_command("spark").endswith("what the extra 'spark' of bmq's pyproject.toml names")
