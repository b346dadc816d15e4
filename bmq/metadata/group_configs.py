"""Configs of one consumer, share or streams group (KIP-848, KIP-932, KIP-1071); broker configs set the bounds of their
values. Pure.

Names and words are those of Kafka's GroupConfig (4.3, dead letters 4.4); `bmq.…` are our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bmq.log.lanes.names import LaneRefused, check_base
from bmq.metadata.broker_configs import BROKER_CONFIGS, SHARE_RECORD_NAMES, BrokerConfigs
from bmq.metadata.config_keys import ConfigKey, ConfigType, InvalidConfig, Value, at_least, one_of, table_of
from bmq.metadata.dead_letter_configs import DEAD_LETTER_GROUP_CONFIGS
from bmq.metadata.share_reset import reset_strategy
from bmq.protocol.retry_backoff import BadBackoff, backoff_of

_NAMES: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
_STREAMS_NAMES: Final = ("num.standby.replicas", "initial.rebalance.delay.ms")
_KINDS: Final = ("consumer", "share", "streams")


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


def _retry_backoff(name: str, value: Value) -> None:
    try:
        backoff_of(str(value))
    except BadBackoff as error:
        raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from error


GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = table_of(
    *(_key(f"{kind}.{name}") for kind in _KINDS for name in _NAMES),
    *(_key(f"streams.{name}") for name in _STREAMS_NAMES),
    *(_key(f"share.{name}") for name in SHARE_RECORD_NAMES),
    ConfigKey(
        "share.auto.offset.reset",
        ConfigType.STRING,
        "latest",
        "Where a share partition begins: latest, earliest, or by_duration:PnDTnHnMn.nS before now.",
        reset_strategy,
        is_dynamic=True,
    ),
    ConfigKey(
        "share.isolation.level",
        ConfigType.STRING,
        "read_uncommitted",
        "Whether a share group is given records of transactions that are not committed.",
        one_of("read_committed", "read_uncommitted"),
        is_dynamic=True,
    ),
    ConfigKey(
        "share.renew.acknowledge.enable",
        ConfigType.BOOLEAN,
        "true",
        "Whether members may prolong the locks of their records.",
        is_dynamic=True,
    ),
    ConfigKey(
        "bmq.share.subscription.type",
        ConfigType.STRING,
        "shared",
        "The members that get partitions: shared: all members; key_shared: all, and each key's records in order, by one member at a "
        "time; failover: the oldest, the others stand by; exclusive: the only one.",
        one_of("shared", "key_shared", "exclusive", "failover"),
        is_dynamic=True,
    ),
    ConfigKey(
        "bmq.share.retry.backoff",
        ConfigType.STRING,
        "",
        "How long a record waits that was released, or whose lock ran out: a range like 1s..60s (twice as long each time), "
        "or a list like 1s,10s,5m. Empty: not at all.",
        _retry_backoff,
        is_dynamic=True,
    ),
    ConfigKey(
        "bmq.lane.enable",
        ConfigType.BOOLEAN,
        "false",
        "Whether groups named <this group>@<lane> take records with the header x-lane from this group. All its consumers then "
        "need client.id=lanes:<this group>, those of a lane client.id=lanes:<this group>@<lane>.",
        is_dynamic=True,
    ),
    ConfigKey(
        "bmq.lane.grace.ms",
        ConfigType.LONG,
        "60000",
        "How long a lane of this group is kept after its last consumer has left; then its records are this group's again.",
        at_least(0),
        is_dynamic=True,
    ),
    *DEAD_LETTER_GROUP_CONFIGS,
)
_BOUNDS: Final[Mapping[str, tuple[str | None, str | None]]] = {
    **{
        f"{kind}.{name}": (f"group.{kind}.min.{name}", f"group.{kind}.max.{name}") for kind in _KINDS for name in _NAMES
    },
    **{f"share.{name}": (f"group.share.min.{name}", f"group.share.max.{name}") for name in SHARE_RECORD_NAMES},
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
    "streams.initial.rebalance.delay.ms": (None, None),
}
"""The broker configs that bound a group's own values: (smallest, largest)."""


def broker_name(name: str) -> str | None:
    """The broker config that applies when a group does not set its own; None: there is none."""
    return f"group.{name}" if name in _BOUNDS else None


def check_lanes(group_id: str, configs: Mapping[str, str]) -> None:
    """Raises InvalidConfig when a group cannot have the lanes that these configs allow."""
    if configs.get("bmq.lane.enable", "").strip().lower() == "true":
        try:
            check_base(group_id)
        except LaneRefused as error:
            raise InvalidConfig(f"bmq.lane.enable: {error}") from error


def validate_group(configs: Mapping[str, str], broker: BrokerConfigs) -> None:
    """Raises InvalidConfig when a group may not have these configs."""
    values = {name: broker.number(f"group.{name}") for name in _BOUNDS}
    for name, text in configs.items():
        key = GROUP_CONFIGS.get(name)
        if key is None:
            raise InvalidConfig(f"Unknown group config name: {name}")
        key.parse(text)
        if name not in _BOUNDS:
            continue
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
