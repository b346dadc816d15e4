"""The topic config of retry topics, `bmq.retry.levels`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from bmq.metadata.config_keys import ConfigKey, ConfigType, InvalidConfig, Value
from bmq.protocol.retry_backoff import BadBackoff, backoff_of
from bmq.protocol.retry_topics import INFIX, LEVELS_CONFIG, retry_topic_of


def _levels(name: str, value: Value) -> None:
    try:
        backoff_of(str(value))
    except BadBackoff as error:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from error


RETRY_LEVELS_CONFIG: Final = ConfigKey(
    LEVELS_CONFIG,
    ConfigType.STRING,
    "",
    "Makes a topic named TOPIC.retry.GROUP the retry topic of that group: how long a record waits after its first, second, … "
    "attempt, as a list like 1s,10s,5m or a range like 1s..60s (twice as long each time). After the last one it goes to the "
    "group's topic of dead letters. Empty: no retry topic.",
    _levels,
)


def levels_ms(values: Mapping[str, Value]) -> tuple[int, ...]:
    """How long attempts on a topic with these values wait; (): it is no retry topic."""
    return backoff_of(str(values[LEVELS_CONFIG]))


def check_levels(values: Mapping[str, Value], topic: str | None) -> None:
    """Whether a topic of this name may have these values; None: whatever its name is. Raises InvalidConfig."""
    levels = levels_ms(values)
    if not levels:
        return
    if topic is not None and retry_topic_of(topic) is None:
        raise InvalidConfig(f"{LEVELS_CONFIG} is for topics named TOPIC{INFIX}GROUP, and not for {topic}")
    delay_max_ms = cast(int, values["bmq.delay.max.ms"])
    if max(levels) > delay_max_ms:
        raise InvalidConfig(f"{LEVELS_CONFIG} has a delay of {max(levels)} ms, bmq.delay.max.ms allows {delay_max_ms}")
    if "compact" in cast(tuple[str, ...], values["cleanup.policy"]):
        raise InvalidConfig(
            f"{LEVELS_CONFIG} holds records back, which compaction cannot see: cleanup.policy must be delete"
        )
