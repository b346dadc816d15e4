"""What a shell is told when it asks for completions."""

from __future__ import annotations

import subprocess

import pytest
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.cli.kafka.model import Group
from bmq.cli.shell_completion import ASKED_BY, Shell, prepare
from tests.fakes.kafka_client import FakeKafka

pytestmark = pytest.mark.unit


def completed(kafka: FakeKafka | None, *words: str) -> list[str]:
    """For the last word, which may be empty."""
    prepare()
    asked = {ASKED_BY: "complete_bash", "COMP_WORDS": " ".join(["bmq", *words]), "COMP_CWORD": str(len(words))}
    result = CliRunner().invoke(app, [], prog_name="bmq", env=asked, obj=kafka)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output.split()


def test_commands_and_options() -> None:
    assert completed(None, "top") == ["topic"]
    assert "--partitions" in completed(None, "topic", "create", "--p")
    assert completed(None, "config", "describe", "b") == ["broker"]


def test_names_of_the_cluster(kafka: FakeKafka) -> None:
    kafka.simple += [Group("copier", "classic", "empty", False), Group("evil$(id)", "classic", "empty", False)]
    assert completed(kafka, "topic", "describe", "") == ["__consumer_offsets", "empty", "orders"]
    assert completed(kafka, "topic", "describe", "empty", "o") == ["orders"]
    assert completed(kafka, "topic", "consume", "e") == ["empty"]
    assert completed(kafka, "group", "reset", "") == ["copier"], "a name that a shell would evaluate is left out"
    assert completed(kafka, "config", "alter", "topic", "or") == ["orders"]
    assert completed(kafka, "config", "alter", "broker", "") == ["1", "2"]
    assert completed(kafka, "config", "alter", "group", "c") == ["copier"]


def test_a_cluster_that_does_not_answer_has_no_names() -> None:
    assert completed(None, "topic", "describe", "--bootstrap", "127.0.0.1:none", "") == []


@pytest.mark.parametrize("shell", list(Shell))
def test_each_shell_has_a_script(shell: Shell) -> None:
    result = CliRunner().invoke(app, ["completion", shell.value])
    assert result.exit_code == 0
    assert ASKED_BY in result.output
    if shell is Shell.BASH:
        subprocess.run(["bash", "-n"], input=result.output, text=True, check=True)
    assert CliRunner().invoke(app, ["completion", "csh"]).exit_code == 2
