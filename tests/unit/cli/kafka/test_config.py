"""`bmq config` over a cluster in memory; and `show`, which needs none."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.cli.kafka.model import Config, ConfigChange, ConfigKind
from tests.fakes.kafka_client import FakeKafka
from tests.unit.cli.kafka.conftest import Commands

pytestmark = pytest.mark.unit


def test_configs_that_are_no_defaults(bmq: Commands, kafka: FakeKafka) -> None:
    kafka.set_configs[ConfigKind.TOPIC, "orders"] = [Config("retention.ms", "", "topic")]
    kafka.set_configs[ConfigKind.BROKER, "1"] = [
        Config("broker.id", "1", "settings", is_read_only=True),
        Config("password", None, "broker", is_sensitive=True),
    ]
    assert bmq.rows("config", "describe", "topic", "orders", "empty") == [
        ["topic", "orders", "retention.ms", '""', "topic"]
    ]
    assert [row["config"] for row in bmq.document("config", "describe", "topic", "empty", "--all")] == [
        "cleanup.policy",
        "retention.ms",
    ]
    assert bmq.shown("config", "describe", "broker", "1", "--csv").splitlines() == [
        "kind,name,config,value,source,read_only",
        "broker,1,broker.id,1,settings,true",
        "broker,1,password,(hidden),broker,false",
    ]
    assert bmq.document("config", "describe", "group", "not-yet") == []


def test_what_does_not_exist_is_one_sentence(bmq: Commands) -> None:
    assert bmq.failure("config", "describe", "broker", "77") == "there is no broker '77'; there are 1, 2"
    assert bmq.failure("config", "alter", "topic", "gone", "a=1") == "there is no topic 'gone'"
    assert "Unknown topic config" in bmq.failure("config", "alter", "topic", "orders", "unknown=1")
    assert bmq.failure("config", "alter", "topic", "orders", "nothing") == (
        "'nothing' is not NAME=VALUE, NAME+=VALUE or NAME-=VALUE"
    )
    assert bmq.run("config", "alter", "topic", "orders").exit_code == 2
    assert bmq.run("config", "describe", "table", "x").exit_code == 2


def test_an_alteration_shows_its_plan_first(bmq: Commands, kafka: FakeKafka) -> None:
    wanted = ("config", "alter", "group", "g", "retention.ms=5", "-d", "cleanup.policy")
    plan = bmq.shown(*wanted, "--dry-run")
    assert plan.splitlines() == [
        "group g",
        "  retention.ms: 604800000 (default) -> 5",
        "  cleanup.policy: delete (default) -> what it is without this setting",
    ]
    assert kafka.calls == []
    assert bmq.shown(*wanted) == f"{plan}done\n"
    changes = (ConfigChange("retention.ms", "set", "5"), ConfigChange("cleanup.policy", "delete", None))
    assert kafka.calls == [("configs", "group", "g", changes)]


@pytest.mark.usefixtures("on_a_terminal")
def test_nothing_is_changed_on_a_terminal_without_a_yes(bmq: Commands, kafka: FakeKafka) -> None:
    assert bmq.run("config", "alter", "topic", "orders", "retention.ms=5", given="n\n").exit_code == 1
    assert kafka.calls == []


def test_settings_of_this_machine(bmq: Commands, tmp_path: Path) -> None:
    file = tmp_path / "bmq.toml"
    file.write_text('listen = "127.0.0.1:9999"\n')
    rows = {row[0]: row[1:] for row in bmq.rows("config", "show", "--config", str(file), "--rest", "127.0.0.1:9998")}
    assert rows["listen"][0] == "127.0.0.1:9999"
    assert rows["rest"] == ["127.0.0.1:9998", "command", "line"]
