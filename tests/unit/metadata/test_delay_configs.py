"""Topic configs of delayed records."""

from __future__ import annotations

import pytest

from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.topic_configs import log_config, validate

pytestmark = pytest.mark.unit


def test_delay_is_off_by_default_and_reaches_the_log() -> None:
    assert not log_config({}, {}).is_delay_enabled
    config = log_config({"bmq.delay.enable": "true", "bmq.delay.max.ms": "60000"}, {})
    assert config.is_delay_enabled and config.delay_max_ms == 60_000


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_a_compacted_topic_has_no_delay(policy: str) -> None:
    validate({"bmq.delay.enable": "true", "cleanup.policy": "delete"}, {})
    with pytest.raises(InvalidConfig, match=r"cleanup\.policy must be delete"):
        validate({"bmq.delay.enable": "true", "cleanup.policy": policy}, {})


@pytest.mark.parametrize("value", ["0", "-1", "soon"])
def test_a_delay_is_at_least_a_millisecond(value: str) -> None:
    with pytest.raises(InvalidConfig):
        validate({"bmq.delay.max.ms": value}, {})
