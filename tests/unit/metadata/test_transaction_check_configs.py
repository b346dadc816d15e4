"""Broker configs of checks of open transactions: what they may be, alone and together, and what is made of them."""

from __future__ import annotations

import pytest

from bmq.coordinator.transactions.check_back import CheckPolicy
from bmq.metadata.broker_configs import BROKER_CONFIGS, BrokerConfigs, require_bounds
from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.transaction_check_configs import TRANSACTION_CHECK_CONFIGS

pytestmark = pytest.mark.unit

PREFIX = "bmq.transaction.check."


def test_they_may_be_altered_while_servers_run() -> None:
    for key in TRANSACTION_CHECK_CONFIGS:
        assert BROKER_CONFIGS[key.name].is_dynamic and key.name.startswith(PREFIX)
    require_bounds(BrokerConfigs())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ids", "pay-,,order-", "an empty prefix is that of all ids"),
        ("ids", ",", "an empty prefix"),
        ("ids", ",".join(f"p{number}" for number in range(101)), "101 prefixes, 100 are allowed"),
        ("url", "http://169.254.169.254/latest", "metadata services"),
        ("url", "ftp://host/", "http://host"),
        ("url", "http://user:word@host/", "a user, a password"),
        ("topic", "__checks", "internal topics"),
        ("topic", "a b", "Invalid value"),
        ("id.topic", "__ids", "internal topics"),
        ("before.ms", "999", "at least 1000"),
        ("interval.ms", "0", "at least 1000"),
        ("extra.ms", "-1", "at least 0"),
        ("extra.ms", "3600001", "no more than 3600000"),
    ],
)
def test_bad_values(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        BROKER_CONFIGS[PREFIX + name].parse(value)


@pytest.mark.parametrize(
    "values",
    [
        {"url": "http://checks/", "topic": "checks"},
        {"topic": "checks", "id.topic": "checks"},
    ],
)
def test_values_that_do_not_go_together(values: dict[str, str]) -> None:
    configs = BrokerConfigs(dynamic_default={PREFIX + name: text for name, text in values.items()})
    with pytest.raises(InvalidConfig, match=r"both set|the same topic"):
        require_bounds(configs)


def test_the_defaults_ask_about_nothing() -> None:
    assert not CheckPolicy().is_on
    defaults = {key.name.removeprefix(PREFIX): key.default for key in TRANSACTION_CHECK_CONFIGS}
    assert defaults == {
        "ids": "",
        "url": "",
        "topic": "",
        "id.topic": "",
        "before.ms": str(CheckPolicy().before_ms),
        "interval.ms": str(CheckPolicy().interval_ms),
        "extra.ms": str(CheckPolicy().extra_ms),
    }
