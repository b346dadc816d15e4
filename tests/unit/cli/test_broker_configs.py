"""Kafka's names for the group coordinator's settings."""

from __future__ import annotations

import pytest

from bmq.cli.broker_configs import coordinator_config
from bmq.coordinator.config import CoordinatorConfig
from bmq.metadata.broker_configs import BrokerConfigs

pytestmark = pytest.mark.unit


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
