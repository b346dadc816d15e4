"""Every command says how it is used. Help texts are markup, so that one bracket too many would be a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import version

import pytest
import typer
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from bmq.cli.commands import app
from tests.support.gate_share import few_in_gate

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")


def commands(group: typer.Typer) -> Iterator[list[str]]:
    """The words of every command and group below `group`."""

    def walk(command: object, words: list[str]) -> Iterator[list[str]]:
        yield words
        if isinstance(command, TyperGroup):
            context = Context(command)
            for name in command.list_commands(context):
                yield from walk(command.get_command(context, name), [*words, name])

    yield from walk(get_command(group), [])


def test_the_groups_that_are_imported_late_are_among_them() -> None:
    assert {("cluster",), ("log",), ("topic", "list"), ("table", "status"), ("dev", "hdfs", "up")} <= {
        tuple(words) for words in commands(app)
    }


def test_a_typing_error_is_told_of_groups_that_were_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.testing._get_command", get_command)  # made anew: no group of it was loaded
    result = CliRunner().invoke(app, ["clutser"])
    assert result.exit_code == 2
    assert "'cluster'" in result.output


@few_in_gate("words", list(commands(app)), ids=lambda words: " ".join(words) or "bmq", every=6, others=in_campaign)
def test_help_is_shown(words: list[str]) -> None:
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.exception
    assert words == [] or words[-1] in result.output


def test_the_version_is_that_of_the_installed_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"bmq {version('bmq')}\n")
