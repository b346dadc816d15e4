"""Settings of librdkafka on a command line and in files."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.cli.kafka.options import kafka_settings

pytestmark = pytest.mark.unit


def test_settings_in_a_file_and_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# who we are\n\nsasl.username=me\n  sasl.password=a=b#c \n")
    assert kafka_settings([f"@{file}", "sasl.username=you"]) == {"sasl.username": "you", "sasl.password": "a=b#c"}
    assert kafka_settings(None) == {}


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(b"\xff")
    for name, why in ((bad, "it is not UTF-8"), (tmp_path, "Is a directory"), (tmp_path / "none", "No such file")):
        with pytest.raises(typer.BadParameter, match=why):
            kafka_settings([f"@{name}"])
    bad.write_text("no setting")
    with pytest.raises(typer.BadParameter, match="is not NAME=VALUE"):
        kafka_settings([f"@{bad}"])


def test_they_are_taken_from_the_environment() -> None:
    result = CliRunner().invoke(app, ["topic", "list"], env={"BMQ_KAFKA": "no.such=1"})
    assert 'No such configuration property: "no.such"' in str(result.exception)
