"""The topic config of retry topics."""

from __future__ import annotations

import pytest

from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.topic_configs import log_config, validate

pytestmark = pytest.mark.unit

LEVELS = "bmq.retry.levels"
NAME = "orders.retry.app"


def test_a_retry_topic_has_delay_and_its_levels_reach_the_log() -> None:
    assert log_config({}, {}).retry_levels_ms == ()
    config = log_config({LEVELS: "1s,10s,5m"}, {})
    assert config.is_delay_enabled and config.retry_levels_ms == (1_000, 10_000, 300_000)
    assert log_config({LEVELS: "1s..5s"}, {}).retry_levels_ms == (1_000, 2_000, 4_000, 5_000)


@pytest.mark.parametrize("name", ["orders", "orders.retry", "orders.retry.", ".retry.app"])
def test_only_a_topic_with_the_name_of_one_is_a_retry_topic(name: str) -> None:
    validate({LEVELS: "1s"}, {}, NAME)
    validate({LEVELS: ""}, {}, name)
    with pytest.raises(InvalidConfig, match=r"TOPIC\.retry\.GROUP"):
        validate({LEVELS: "1s"}, {}, name)


@pytest.mark.parametrize("levels", ["soon", "1s,,2s", "5", "-1s", "25h", ",".join(["1s"] * 26), "2s..1s"])
def test_levels_that_are_none_are_refused(levels: str) -> None:
    with pytest.raises(InvalidConfig, match=r"bmq\.retry\.levels"):
        validate({LEVELS: levels}, {}, NAME)


def test_levels_and_other_configs_agree() -> None:
    with pytest.raises(InvalidConfig, match=r"bmq\.delay\.max\.ms allows 9999"):
        validate({LEVELS: "1s,10s", "bmq.delay.max.ms": "9999"}, {}, NAME)
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy must be delete"):
        validate({LEVELS: "1s", "cleanup.policy": "compact"}, {}, NAME)
