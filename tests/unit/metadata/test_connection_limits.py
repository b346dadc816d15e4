"""How limits for single addresses are written."""

from __future__ import annotations

import pytest

from bmq.metadata.broker_configs import BROKER_CONFIGS, BrokerConfigs
from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.connection_limits import (
    OVERRIDES,
    ConnectionLimits,
    LimitsInForce,
    connection_limits,
    parse_overrides,
)

pytestmark = pytest.mark.unit


def test_without_configs_there_is_no_limit() -> None:
    assert connection_limits(BrokerConfigs()) == ConnectionLimits()


def test_limits_are_read_once_for_each_change() -> None:
    class Counting(BrokerConfigs):
        reads = 0

        def value_of(self, name: str) -> str | None:
            Counting.reads += 1
            return super().value_of(name)

    configs = Counting(dynamic_default={"max.connections": "9"})
    limits = LimitsInForce(lambda: configs)
    assert limits().total == 9
    reads = Counting.reads
    assert limits() is limits() and reads == Counting.reads > 0
    configs = Counting(dynamic_default={"max.connections": "8"})
    assert limits().total == 8


def test_an_addresses_own_limit_counts_instead() -> None:
    configs = {
        "max.connections": "9",
        "max.connections.per.ip": "3",
        OVERRIDES: " 10.0.0.1:5, localhost:7,[::2]:1,FE80::1:2",
    }
    limits = connection_limits(BrokerConfigs(dynamic_default=configs))
    assert limits.total == 9
    hosts = ("10.0.0.1", "127.0.0.1", "::1", "::2", "fe80::1", "10.0.0.2")
    assert [limits.of_host(host) for host in hosts] == [5, 7, 7, 1, 2, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.1", "10.0.0.1 is not ADDRESS:NUMBER"),
        ("10.0.0.1:x", "10.0.0.1:x is not ADDRESS:NUMBER"),
        ("10.0.0.1:-1", "10.0.0.1:-1 is not ADDRESS:NUMBER"),
        ("10.0.0.1:9999999999", "10.0.0.1:9999999999 is not ADDRESS:NUMBER"),
        ("example.org:1", "example.org is not an address"),
        (":1", " is not an address"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        BROKER_CONFIGS[OVERRIDES].parse(text)
    assert str(refused.value) == f"Invalid value {text} for configuration {OVERRIDES}: {why}"
    assert parse_overrides("") == {}
