"""Broker configs by which open transactions are asked back about before their time-out aborts them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bmq.metadata.config_keys import Check, ConfigKey, ConfigType, InvalidConfig, Value, between
from bmq.metadata.dead_letter_configs import check_topic_name
from bmq.metadata.half_configs import BadCheckUrl, check_url

CHECK_IDS: Final = "bmq.transaction.check.ids"
CHECK_URL: Final = "bmq.transaction.check.url"
CHECK_TOPIC: Final = "bmq.transaction.check.topic"
CHECK_ID_TOPIC: Final = "bmq.transaction.check.id.topic"
CHECK_BEFORE_MS: Final = "bmq.transaction.check.before.ms"
CHECK_INTERVAL_MS: Final = "bmq.transaction.check.interval.ms"
CHECK_EXTRA_MS: Final = "bmq.transaction.check.extra.ms"
PREFIXES_MAX: Final = 100
_HOUR_MS: Final = 3_600_000


def _prefixes(name: str, value: Value) -> None:
    assert isinstance(value, tuple)
    if "" in value:
        raise InvalidConfig(
            f"Invalid value {','.join(value)} for configuration {name}: an empty prefix is that of all ids"
        )
    if len(value) > PREFIXES_MAX:
        raise InvalidConfig(
            f"Invalid value for configuration {name}: {len(value)} prefixes, {PREFIXES_MAX} are allowed"
        )


def _url(name: str, value: Value) -> None:
    if value:
        try:
            check_url(str(value))
        except BadCheckUrl as error:
            raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from error


def _topic(name: str, value: Value) -> None:
    check_topic_name(name, value, "names of internal topics begin so")


def _dynamic(name: str, kind: ConfigType, default: str, documentation: str, check: Check) -> ConfigKey:
    return ConfigKey(name, kind, default, documentation, check, is_dynamic=True)


TRANSACTION_CHECK_CONFIGS: Final = (
    _dynamic(
        CHECK_IDS,
        ConfigType.LIST,
        "",
        "How transactional ids begin whose open transactions are asked back about before they are aborted. Empty: none.",
        _prefixes,
    ),
    _dynamic(
        CHECK_URL,
        ConfigType.STRING,
        "",
        "Where these checks are posted to, if the setting [half_checks] hosts names the host. Empty: nowhere.",
        _url,
    ),
    _dynamic(
        CHECK_TOPIC,
        ConfigType.STRING,
        "",
        "The topic that gets a record for each check; errors.deadletterqueue.group.enable has to be true there. Empty: none.",
        _topic,
    ),
    _dynamic(
        CHECK_ID_TOPIC,
        ConfigType.STRING,
        "",
        "Only transactions with a record here are asked about; its header bmq-transaction-check is the check id. Empty: all.",
        _topic,
    ),
    _dynamic(
        CHECK_BEFORE_MS,
        ConfigType.LONG,
        "30000",
        "How long before its time-out a transaction is first asked about, or after half of its time if that is later.",
        between(1_000, _HOUR_MS),
    ),
    _dynamic(
        CHECK_INTERVAL_MS,
        ConfigType.LONG,
        "5000",
        "How long after that, and then again, the next check follows.",
        between(1_000, _HOUR_MS),
    ),
    _dynamic(
        CHECK_EXTRA_MS,
        ConfigType.LONG,
        "0",
        "How much longer than its time-out it stays open without an answer; readers of committed records wait.",
        between(0, _HOUR_MS),
    ),
)


def require_transaction_checks(values: Mapping[str, str | None]) -> None:
    """Raises InvalidConfig for values that do not go together."""
    url, topic = values[CHECK_URL], values[CHECK_TOPIC]
    if url and topic:
        raise InvalidConfig(f"{CHECK_URL} and {CHECK_TOPIC} are both set: transactions are checked in one way")
    if topic and topic == values[CHECK_ID_TOPIC]:
        raise InvalidConfig(
            f"{CHECK_TOPIC} and {CHECK_ID_TOPIC} are the same topic: one has checks, the other their ids"
        )
