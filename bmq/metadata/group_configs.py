"""Configs of one consumer or streams group (KIP-848, KIP-1071); broker configs set the bounds of their values. Pure.

Names and words are those of Kafka's GroupConfig (4.3). Share groups are not supported, so their configs are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bmq.metadata.broker_configs import BROKER_CONFIGS, BrokerConfigs
from bmq.metadata.config_keys import ConfigKey, InvalidConfig, table_of

_NAMES: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_STREAMS_NAMES: Final = ("num.standby.replicas", "initial.rebalance.delay.ms")
_KINDS: Final = ("consumer", "streams")


def _key(name: str) -> ConfigKey:
    behind = BROKER_CONFIGS[f"group.{name}"]
    return ConfigKey(
        name,
        behind.type,
        behind.default,
        f"Of one group; else {behind.name}.",
        behind.check,
        is_dynamic=True,
    )


GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = table_of(
    *(_key(f"{kind}.{name}") for kind in _KINDS for name in _NAMES),
    *(_key(f"streams.{name}") for name in _STREAMS_NAMES),
)
_BOUNDS: Final[Mapping[str, tuple[str | None, str | None]]] = {
    **{
        f"{kind}.{name}": (f"group.{kind}.min.{name}", f"group.{kind}.max.{name}") for kind in _KINDS for name in _NAMES
    },
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
    "streams.initial.rebalance.delay.ms": (None, None),
}
"""The broker configs that bound a group's own values: (smallest, largest)."""


def broker_name(name: str) -> str:
    """The broker config that applies when a group does not set its own."""
    return f"group.{name}"


def validate_group(configs: Mapping[str, str], broker: BrokerConfigs) -> None:
    """Raises InvalidConfig when a group may not have these configs."""
    values = {name: broker.number(broker_name(name)) for name in GROUP_CONFIGS}
    for name, text in configs.items():
        key = GROUP_CONFIGS.get(name)
        if key is None:
            raise InvalidConfig(f"Unknown group config name: {name}")
        key.parse(text)
        values[name] = value = int(text)
        low, high = _BOUNDS[name]
        if low is not None and value < broker.number(low):
            raise InvalidConfig(f"{name} must be greater than or equal to {low}")
        if high is not None and value > broker.number(high):
            raise InvalidConfig(f"{name} must be less than or equal to {high}")
    for kind in _KINDS:
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if values[session] <= values[heartbeat]:
            raise InvalidConfig(f"{session} must be greater than {heartbeat}")
