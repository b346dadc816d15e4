"""Every command says how it is used. Help texts are markup, so that one bracket too many would be a traceback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from bmq.cli.main import app

pytestmark = pytest.mark.unit


def commands(group: typer.Typer) -> Iterator[list[str]]:
    """The words of every command and group below `group`."""

    def walk(command: object, words: list[str]) -> Iterator[list[str]]:
        yield words
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, [*words, name])

    yield from walk(get_command(group), [])


@pytest.mark.parametrize("words", list(commands(app)), ids=lambda words: " ".join(words) or "bmq")
def test_help_is_shown(words: list[str]) -> None:
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.exception
    assert words == [] or words[-1] in result.output
