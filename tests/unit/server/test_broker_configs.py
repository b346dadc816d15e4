"""Kafka's names for settings, of the group coordinator and of others."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bmq.coordinator.config import CoordinatorConfig
from bmq.metadata.broker_configs import BROKER_CONFIGS, BrokerConfigs
from bmq.server.broker_configs import coordinator_config, kafka_configs, warn_without_effect
from bmq.server.kafka_names import INSTEAD, SETTING_OF
from bmq.server.settings import BadSettings, load_settings

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def no_settings_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def test_without_settings_the_coordinator_has_kafkas_defaults() -> None:
    assert coordinator_config(BrokerConfigs()) == CoordinatorConfig()


def test_how_long_offsets_are_kept() -> None:
    static = {
        "offsets.retention.minutes": "3",
        "offsets.retention.check.interval.ms": "7",
        "offset.metadata.max.bytes": "9",
    }
    config = coordinator_config(BrokerConfigs(static=static))
    assert config.offsets_retention_ms == 180_000
    assert config.offsets_retention_check_interval_ms == 7
    assert config.offset_metadata_max_bytes == 9


@pytest.mark.parametrize("name", sorted(SETTING_OF))
def test_a_setting_may_have_kafkas_name(name: str) -> None:
    table, setting = SETTING_OF[name]
    loaded = load_settings({"kafka": {name: "1234567"}}, None)
    assert getattr(getattr(loaded.settings, table), setting) == 1_234_567
    (origin,) = (one for one in loaded.origins if one.name == f"{table}.{setting}")
    assert origin.source == "broker config of the same meaning"
    assert kafka_configs(loaded.settings)[name] == "1234567"


def test_the_settings_own_name_counts_and_is_what_is_shown() -> None:
    given = {"kafka": {"max.connections": "5"}, "proxy": {"connections_max": 7}}
    settings = load_settings(given, None).settings
    assert settings.proxy.connections_max == 7
    assert kafka_configs(settings)["max.connections"] == "7"


def test_what_is_kafkas_default_is_not_shown_as_set() -> None:
    shown = kafka_configs(load_settings({}, None).settings)
    own = {"max.connections", "log.cleaner.dedupe.buffer.size"}
    assert shown.keys() == {"log.dirs", *own}, (
        "bmq's defaults are other ones: connections are limited, its cleaner is small"
    )


def test_a_bad_value_is_named() -> None:
    with pytest.raises(
        BadSettings, match=r"proxy.connections_max = 'many' \(from the broker config of the same meaning\)"
    ):
        load_settings({"kafka": {"max.connections": "many"}}, None)


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_what_has_another_form_here_is_not_taken_under_kafkas_name(name: str) -> None:
    assert name in BROKER_CONFIGS
    with pytest.raises(BadSettings) as refused:
        load_settings({"kafka": {name: "5"}}, None)
    assert str(refused.value) == f"setting kafka.{name}: use {INSTEAD[name]} instead"


def test_what_has_no_effect_is_said() -> None:
    settings = load_settings(
        {"kafka": {"num.io.threads": "9", "num.partitions": "3", "quota.window.num": "2"}}, None
    ).settings
    with capture_logs() as lines:
        warn_without_effect(settings)
    (line,) = lines
    assert (line["event"], line["names"]) == ("broker_configs_without_effect", "num.io.threads,quota.window.num")
