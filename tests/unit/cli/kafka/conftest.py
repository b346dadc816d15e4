"""What tests of commands over a Kafka cluster share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bmq.cli.commands import app
from tests.fakes.kafka_client import FakeKafka


class Commands:
    """Runs `bmq` over a cluster in memory."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka

    def run(self, *arguments: str, given: str | bytes | None = None) -> Result:
        return CliRunner().invoke(app, arguments, obj=self._kafka, input=given)

    def shown(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output

    def rows(self, *arguments: str) -> list[list[str]]:
        """Words of each line of a table, without its heading."""
        return [line.split() for line in self.shown(*arguments).splitlines()[1:]]

    def document(self, *arguments: str) -> Any:
        return json.loads(self.shown(*arguments, "--json"))

    def failure(self, *arguments: str) -> str:
        """The one sentence of a command that fails."""
        result = self.run(*arguments)
        assert result.exit_code == 1, result.output
        return str(result.exception)


@pytest.fixture
def kafka() -> FakeKafka:
    found = FakeKafka()
    found.add("orders", [10, 20, 30], [15])
    found.add("empty", [])
    found.add("__consumer_offsets", [1], is_internal=True)
    return found


@pytest.fixture
def bmq(kafka: FakeKafka) -> Commands:
    return Commands(kafka)


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands ask before they change something."""
    is_terminal: Callable[[], bool] = lambda: True  # noqa: E731
    monkeypatch.setattr("bmq.cli.kafka.options.is_terminal", is_terminal)
