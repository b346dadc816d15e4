"""What can be set for one consumer group (KIP-848), and within which bounds: the broker configs say those.

Names and words are those of Kafka's GroupConfig (4.3). What share and streams groups have is left out, as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bmq.metadata.broker_configs import BROKER_CONFIGS, BrokerConfigs
from bmq.metadata.config_keys import ConfigKey, InvalidConfig, table_of

_NAMES: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")


def _key(name: str) -> ConfigKey:
    behind = BROKER_CONFIGS[f"group.consumer.{name}"]
    return ConfigKey(
        f"consumer.{name}",
        behind.type,
        behind.default,
        f"Of one group; else {behind.name}.",
        behind.check,
        is_dynamic=True,
    )


GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = table_of(*map(_key, _NAMES))


def broker_name(name: str) -> str:
    """The broker config that counts where a group has none of its own."""
    return f"group.{name}"


def validate_group(configs: Mapping[str, str], broker: BrokerConfigs) -> None:
    """Whether a group may have these. Raises InvalidConfig."""
    values = {name: broker.number(broker_name(name)) for name in GROUP_CONFIGS}
    for name, text in configs.items():
        key = GROUP_CONFIGS.get(name)
        if key is None:
            raise InvalidConfig(f"Unknown group config name: {name}")
        key.parse(text)
        values[name] = value = int(text)
        bound = name.removeprefix("consumer.")
        low, high = broker.number(f"group.consumer.min.{bound}"), broker.number(f"group.consumer.max.{bound}")
        if value < low:
            raise InvalidConfig(f"{name} must be greater than or equal to group.consumer.min.{bound}")
        if value > high:
            raise InvalidConfig(f"{name} must be less than or equal to group.consumer.max.{bound}")
    session, heartbeat = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
    if values[session] <= values[heartbeat]:
        raise InvalidConfig(f"{session} must be greater than {heartbeat}")
