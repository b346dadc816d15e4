"""`bmq databus run` says what is wrong before it opens anything; `tail` finds the topic of its channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from bmq.cli import topic_records
from bmq.cli.commands import app
from bmq.databus.lanes.kafka_transactions import KafkaSettingsUnusable
from bmq.databus.settings import SettingsUnusable
from bmq.databus.spool.errors import SpoolUnusable
from tests.unit.cli.rest_node import Node

pytestmark = pytest.mark.unit


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["databus", "run", *arguments])


def test_settings_that_cannot_be_used_are_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "databus.toml"
    config.write_text("spool_bytes_max = 5\n")
    result = ran("--config", str(config))
    assert result.exit_code == 1
    assert isinstance(result.exception, SettingsUnusable)
    assert str(result.exception).startswith("the agent's settings: spool_bytes_max: ")


def test_a_setting_that_librdkafka_refuses_is_told_without_its_value(tmp_path: Path) -> None:
    config = tmp_path / "databus.toml"
    config.write_text('[kafka]\n"security.protocol" = "hunter2"\n')
    result = ran("--config", str(config), "--spool", str(tmp_path / "s"), "--socket", str(tmp_path / "x"))
    assert isinstance(result.exception, KafkaSettingsUnusable)
    assert "security.protocol" in str(result.exception)
    assert "hunter2" not in str(result.exception)
    assert not (tmp_path / "s").exists()


def test_a_directory_of_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("important")
    result = ran("--spool", str(tmp_path), "--socket", str(tmp_path / "s"), "--http", "")
    assert isinstance(result.exception, SpoolUnusable)
    assert "name an empty directory" in str(result.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "thesis.txt"]


def test_tail_follows_the_topic_of_the_channel(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}
    monkeypatch.setattr(topic_records, "consume", lambda _, topics, **more: asked.update(more, topics=topics))
    made = CliRunner().invoke(app, ["databus", "channel", "create", "clicks", "--topic", "orders"])
    assert made.exit_code == 0, (made.output, made.exception)
    result = CliRunner().invoke(app, ["databus", "tail", "clicks", "--last", "3", "--values"])
    assert result.exit_code == 0, (result.output, result.exception)
    assert (asked["topics"], asked["last"], asked["is_followed"], asked["as_values"]) == (["orders"], 3, True, True)
