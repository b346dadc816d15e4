"""The broker configs of this server, with Kafka 4.3's names, types and defaults, and whether they may be altered live.
Pure.

A value is looked up as in Kafka: set for this node, set for all nodes, from the server's own settings, the default.
Those of parts that bmq does not have are in configs_without_effect.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from bmq.metadata.config_keys import (
    NO_EFFECT,
    Check,
    ConfigKey,
    ConfigSource,
    ConfigType,
    InvalidConfig,
    assignors,
    at_least,
    between,
    one_of,
    table_of,
)
from bmq.metadata.configs_without_effect import CONFIGS_WITHOUT_EFFECT, SECURITY_CONFIGS
from bmq.metadata.connection_limits import OVERRIDES, valid_overrides
from bmq.metadata.dead_letter_configs import DEAD_LETTER_BROKER_CONFIGS
from bmq.metadata.image import Node
from bmq.metadata.login_configs import LOGIN_CONFIGS
from bmq.metadata.tls_configs import LISTENER_PREFIX, TLS_CONFIGS
from bmq.metadata.topic_configs import TOPIC_CONFIGS, effective_values
from bmq.metadata.transaction_check_configs import TRANSACTION_CHECK_CONFIGS, require_transaction_checks

_BOOLEAN, _STRING, _INT, _SHORT, _LONG, _DOUBLE, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
QUOTA_SCOPE: Final = "bmq.client.quota.scope"
_LONG_MAX: Final = str(2**63 - 1)
_INT_MAX: Final = str(2**31 - 1)


def _static(
    name: str, config_type: ConfigType, default: str | None, documentation: str, check: Check | None = None
) -> ConfigKey:
    return ConfigKey(name, config_type, default, documentation, check)


def _dynamic(
    name: str, config_type: ConfigType, default: str | None, documentation: str, check: Check | None = None
) -> ConfigKey:
    return ConfigKey(name, config_type, default, documentation, check, is_dynamic=True)


def _default_of(topic_config: str, name: str) -> ConfigKey:
    """A broker config that is only the default of one topic config."""
    key = TOPIC_CONFIGS[topic_config]
    return _dynamic(name, key.type, key.default, f"Default of the topic config {topic_config}.", key.check)


_TOPIC_DEFAULTS: Final = (
    _default_of("bmq.durability", "bmq.durability"),
    _default_of("bmq.lane.producers", "bmq.lane.producers"),
    _default_of("bmq.lane.validate", "bmq.lane.validate"),
    _default_of("bmq.segment.idle.close.ms", "bmq.segment.idle.close.ms"),
    _default_of("bmq.segment.merge.lag.ms", "bmq.segment.merge.lag.ms"),
    _default_of("bmq.segment.merge.max.bytes", "bmq.segment.merge.max.bytes"),
    _default_of("bmq.segment.merge.min.count", "bmq.segment.merge.min.count"),
    _default_of("cleanup.policy", "log.cleanup.policy"),
    _default_of("compression.gzip.level", "compression.gzip.level"),
    _default_of("compression.lz4.level", "compression.lz4.level"),
    _default_of("compression.type", "compression.type"),
    _default_of("compression.zstd.level", "compression.zstd.level"),
    _default_of("delete.retention.ms", "log.cleaner.delete.retention.ms"),
    _default_of("file.delete.delay.ms", "log.segment.delete.delay.ms"),
    _default_of("flush.messages", "log.flush.interval.messages"),
    _dynamic("log.flush.interval.ms", _LONG, None, "Default of the topic config flush.ms."),
    _static("log.flush.scheduler.interval.ms", _LONG, _LONG_MAX, "Default of log.flush.interval.ms."),
    _default_of("index.interval.bytes", "log.index.interval.bytes"),
    _default_of("local.retention.bytes", "log.local.retention.bytes"),
    _default_of("local.retention.ms", "log.local.retention.ms"),
    _default_of("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    _default_of("max.message.bytes", "message.max.bytes"),
    _default_of("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    _default_of("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
    _default_of("message.timestamp.type", "log.message.timestamp.type"),
    _default_of("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
    _default_of("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
    _default_of("min.insync.replicas", "min.insync.replicas"),
    _default_of("preallocate", "log.preallocate"),
    _default_of("retention.bytes", "log.retention.bytes"),
    _dynamic("log.retention.ms", _LONG, None, "Default of the topic config retention.ms; -1: no limit."),
    _static("log.retention.minutes", _INT, None, "As log.retention.ms, in minutes; used where that is not set."),
    _static("log.retention.hours", _INT, "168", "As log.retention.minutes, in hours; used where that is not set."),
    _default_of("segment.bytes", "log.segment.bytes"),
    _default_of("segment.index.bytes", "log.index.size.max.bytes"),
    _dynamic("log.roll.jitter.ms", _LONG, None, "Default of the topic config segment.jitter.ms."),
    _static(
        "log.roll.jitter.hours", _INT, "0", "As log.roll.jitter.ms, in hours; used where that is not set.", at_least(0)
    ),
    _dynamic("log.roll.ms", _LONG, None, "Default of the topic config segment.ms."),
    _static("log.roll.hours", _INT, "168", "As log.roll.ms, in hours; used where that is not set.", at_least(1)),
    _default_of("unclean.leader.election.enable", "unclean.leader.election.enable"),
)

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The value of authorizer.class.name that switches ACLs on."""
_AUTHORIZER: Final = (
    _static(
        "authorizer.class.name",
        _STRING,
        "",
        "`org.apache.kafka.metadata.authorizer.StandardAuthorizer`: ACLs decide who may do what.",
        one_of("", STANDARD_AUTHORIZER),
    ),
    _static("super.users", _STRING, "", "With the authorizer: who may do everything, `User:a;User:b`."),
    _static(
        "allow.everyone.if.no.acl.found",
        _BOOLEAN,
        "false",
        "With the authorizer: whether a resource without ACLs is open to everybody.",
    ),
)

_TOPICS: Final = (
    _static("auto.create.topics.enable", _BOOLEAN, "true", "Whether a request for an unknown topic may create it."),
    _static("default.replication.factor", _INT, "1", "Replication factor of topics that do not ask for one."),
    _static("delete.topic.enable", _BOOLEAN, "true", "Whether topics can be deleted."),
    _static("num.partitions", _INT, "1", "Partitions of topics that do not ask for a number.", at_least(1)),
    _dynamic("log.cleaner.backoff.ms", _LONG, "15000", "How often a node looks for logs to compact.", at_least(0)),
    _dynamic(
        "log.cleaner.dedupe.buffer.size",
        _LONG,
        "134217728",
        "Memory for the map of keys of a compaction; keys beyond it are left for the next one.",
        at_least(1),
    ),
    _static("log.cleaner.enable", _BOOLEAN, "true", "Whether compaction runs at all."),
    _dynamic(
        "log.cleaner.io.max.bytes.per.second",
        _DOUBLE,
        "1.7976931348623157E308",
        "How fast a node writes compacted segments.",
        at_least(1),
    ),
    _static(
        "log.retention.check.interval.ms", _LONG, "300000", "How often retention looks at a partition.", at_least(1)
    ),
    _static("offsets.topic.num.partitions", _INT, "50", "Partitions of __consumer_offsets.", at_least(1)),
    _static(
        "offsets.topic.replication.factor",
        _SHORT,
        "3",
        "Replication factor of __consumer_offsets, capped at the live nodes: replicas hold no data here.",
        at_least(1),
    ),
    _static("offsets.topic.segment.bytes", _INT, "104857600", "segment.bytes of __consumer_offsets.", at_least(1)),
)

_GROUPS: Final = (
    _static("group.consumer.assignors", _LIST, "uniform,range", "Assignors, the default first.", assignors),
    _static("group.consumer.max.size", _INT, _INT_MAX, "Most members of a consumer group.", at_least(1)),
    _static(
        "group.consumer.migration.policy",
        _STRING,
        "bidirectional",
        "Whether a group with members may go from the classic protocol to the consumer protocol (upgrade), back "
        "(downgrade), both (bidirectional) or neither (disabled).",
        one_of("bidirectional", "downgrade", "upgrade", "disabled"),
    ),
    _static(
        "group.consumer.regex.refresh.interval.ms",
        _INT,
        "600000",
        "How old what a consumer's regular expression matches may get before it is looked up again.",
        at_least(10_000),
    ),
    *(
        ConfigKey(
            f"group.{kind}.{bound}{name}",
            _INT,
            default,
            f"{what} of a {kind} group's members.",
            at_least(low),
            is_dynamic=f"{bound}{name}" == "assignment.interval.ms",
        )
        for kind in ("consumer", "share", "streams")
        for name, low, defaults in (
            ("session.timeout.ms", 1, ("45000", "45000", "60000")),
            ("heartbeat.interval.ms", 1, ("5000", "5000", "15000")),
            ("assignment.interval.ms", 0, ("1000", "0", "15000")),
        )
        for bound, default, what in zip(
            ("", "min.", "max."),
            defaults,
            (f"{name} where a group has none of its own,", f"Least {name}", f"Greatest {name}"),
            strict=True,
        )
    ),
    *(
        _static(f"group.share.{bound}{name}", _INT, default, f"{what} of a share group's records.", between(low, high))
        for name, rows in (
            (
                "record.lock.duration.ms",
                (("30000", 1_000, 3_600_000), ("15000", 1_000, 30_000), ("60000", 30_000, 3_600_000)),
            ),
            ("delivery.count.limit", (("5", 2, 10), ("2", 2, 5), ("10", 5, 25))),
            ("partition.max.record.locks", (("2000", 100, 10_000), ("100", 100, 2_000), ("4000", 2_000, 10_000))),
        )
        for bound, what, (default, low, high) in zip(
            ("", "min.", "max."),
            (f"{name} where a group has none of its own,", f"Least {name}", f"Greatest {name}"),
            rows,
            strict=True,
        )
    ),
    *DEAD_LETTER_BROKER_CONFIGS,
    _static("group.share.assignors", _LIST, "simple", "The assignor of share groups.", one_of("simple")),
    _static("group.share.max.size", _INT, "200", "Most members of a share group.", between(1, 1_000)),
    _static("group.share.max.share.sessions", _INT, "2000", "Most share sessions of this node.", at_least(1)),
    _static(
        "share.coordinator.state.topic.num.partitions", _INT, "50", "Partitions of __share_group_state.", at_least(1)
    ),
    _static(
        "share.coordinator.state.topic.min.isr", _SHORT, "2", "min.insync.replicas of __share_group_state.", at_least(1)
    ),
    _static(
        "share.coordinator.state.topic.segment.bytes",
        _INT,
        "104857600",
        "segment.bytes of __share_group_state.",
        at_least(1),
    ),
    _static(
        "share.coordinator.state.topic.replication.factor",
        _SHORT,
        "3",
        "Replication factor of __share_group_state, as far as there are nodes: replicas hold no data here.",
        at_least(1),
    ),
    _static("group.streams.max.size", _INT, _INT_MAX, "Most members of a streams group.", at_least(1)),
    _static(
        "group.streams.initial.rebalance.delay.ms",
        _INT,
        "3000",
        "How long an empty streams group waits for more members, where it has none of its own.",
        at_least(0),
    ),
    _static(
        "group.streams.num.standby.replicas",
        _INT,
        "0",
        "Standby copies of each task with state, where a streams group has none of its own.",
        at_least(0),
    ),
    _static("group.streams.max.standby.replicas", _INT, "2", "Most standby copies a group may ask for.", at_least(0)),
    _static("group.initial.rebalance.delay.ms", _INT, "3000", "How long an empty group waits for more members."),
    _static("group.max.session.timeout.ms", _INT, "1800000", "Largest session timeout a member may ask for."),
    _static("group.max.size", _INT, _INT_MAX, "Most members of a group.", at_least(1)),
    _static("group.min.session.timeout.ms", _INT, "6000", "Smallest session timeout a member may ask for."),
    _static("offset.metadata.max.bytes", _INT, "4096", "Longest metadata of a committed offset."),
    _static(
        "offsets.retention.check.interval.ms", _LONG, "600000", "How often expired offsets are looked for.", at_least(1)
    ),
    _static("offsets.retention.minutes", _INT, "10080", "How long offsets of an empty group are kept.", at_least(1)),
)

_PRODUCERS: Final = (
    _dynamic("producer.id.expiration.ms", _INT, "86400000", "How long an idle producer's state is kept.", at_least(1)),
    _static("transaction.max.timeout.ms", _INT, "900000", "Longest transaction timeout.", at_least(1)),
    _static(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _INT,
        "10000",
        "How often transactions whose timeout is over are looked for.",
        at_least(1),
    ),
    _static(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        "3600000",
        "How often expired transactional ids are looked for.",
        at_least(1),
    ),
    _dynamic(
        "transaction.partition.verification.enable",
        _BOOLEAN,
        "true",
        "Whether a partition's owner asks the transaction coordinator before it takes a transaction's first batch.",
    ),
    _static(
        "add.partitions.to.txn.retry.backoff.ms",
        _INT,
        "20",
        "Pause before a partition's owner asks the transaction coordinator again.",
        at_least(0),
    ),
    _static(
        "add.partitions.to.txn.retry.backoff.max.ms",
        _INT,
        "100",
        "How long a partition's owner goes on asking while the coordinator ends the last transaction.",
        at_least(0),
    ),
    _static("transaction.state.log.num.partitions", _INT, "50", "Partitions of __transaction_state.", at_least(1)),
    _static("transaction.state.log.min.isr", _INT, "2", "min.insync.replicas of __transaction_state.", at_least(1)),
    _static(
        "transaction.state.log.segment.bytes", _INT, "104857600", "segment.bytes of __transaction_state.", at_least(1)
    ),
    _static(
        "transaction.state.log.replication.factor",
        _SHORT,
        "3",
        "Replication factor of __transaction_state, as far as there are nodes: replicas hold no data here.",
        at_least(1),
    ),
    _static(
        "transactional.id.expiration.ms", _INT, "604800000", "How long an idle transactional id is kept.", at_least(1)
    ),
)

_NETWORK: Final = (
    _dynamic(
        QUOTA_SCOPE,
        _STRING,
        "node",
        "Whether quotas of bytes hold for each node, as in Kafka (node), or for all together (cluster).",
        one_of("node", "cluster"),
    ),
    _static("advertised.listeners", _LIST, None, "Addresses that clients are told to use."),
    _static("broker.id", _INT, "-1", "This node's id."),
    _static("broker.rack", _STRING, None, "This node's rack."),
    _static("connections.max.idle.ms", _LONG, "600000", "An idle connection is closed after this time."),
    _static("fetch.max.bytes", _INT, "57671680", "Most bytes of one fetch response.", at_least(1024)),
    _static("listeners", _LIST, "PLAINTEXT://:9092", "Addresses this node listens on."),
    _dynamic("max.connections", _INT, _INT_MAX, "Most connections of this node.", at_least(0)),
    _dynamic("max.connections.per.ip", _INT, _INT_MAX, "Most connections from one address.", at_least(0)),
    _dynamic(
        "max.connections.per.ip.overrides",
        _STRING,
        "",
        "Most connections from each of these addresses, as ADDRESS:NUMBER,…; instead of max.connections.per.ip.",
        valid_overrides,
    ),
    _dynamic(
        "max.connection.creation.rate",
        _INT,
        _INT_MAX,
        "New connections a second of this node; those beyond it wait for at most a second.",
        at_least(0),
    ),
    _static(
        "max.incremental.fetch.session.cache.slots", _INT, "1000", "Most fetch sessions of this node.", at_least(0)
    ),
    _static("max.request.partition.size.limit", _INT, "2000", "Most partitions of one describe response.", at_least(1)),
    _static("node.id", _INT, None, "This node's id.", at_least(0)),
    _static("process.roles", _LIST, None, "Roles of this process.", one_of("broker", "controller")),
    _static("socket.request.max.bytes", _INT, "104857600", "Longest request.", at_least(1)),
    _static("log.dirs", _LIST, None, "Where data is kept."),
    _static(
        "telemetry.max.bytes", _INT, "1048576", "Most bytes of one push of a client's metrics, compressed.", at_least(1)
    ),
    _dynamic(
        "follower.replication.throttled.rate",
        _LONG,
        _LONG_MAX,
        f"{NO_EFFECT}Accepted for reassignment tools: no data moves.",
        at_least(0),
    ),
    _dynamic(
        "leader.replication.throttled.rate",
        _LONG,
        _LONG_MAX,
        f"{NO_EFFECT}Accepted for reassignment tools: no data moves.",
        at_least(0),
    ),
    _dynamic(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        _DOUBLE,
        "1.7976931348623157E308",
        f"{NO_EFFECT}Accepted for reassignment tools: no data moves.",
        at_least(0),
    ),
)

BROKER_CONFIGS: Final[Mapping[str, ConfigKey]] = table_of(
    *_TOPIC_DEFAULTS,
    *_AUTHORIZER,
    *TLS_CONFIGS,
    *_TOPICS,
    *_GROUPS,
    *_PRODUCERS,
    *TRANSACTION_CHECK_CONFIGS,
    *_NETWORK,
    *LOGIN_CONFIGS,
    *CONFIGS_WITHOUT_EFFECT,
)

HIDDEN_BY_DEFAULT: Final = frozenset(
    {
        "allow.everyone.if.no.acl.found",
        "super.users",
        "group.consumer.regex.refresh.interval.ms",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Shown only if they were set, as in Kafka."""

BROKER_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "log.retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "log.retention.minutes": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "log.roll.ms": ("log.roll.ms", "log.roll.hours"),
}
"""Names under which a broker config may be given, the strongest first; others only have their own."""

OWN_STATIC: Final[Mapping[str, str]] = {
    # With Kafka's 128 MiB the process that cleans would take 240 MB in all.
    "log.cleaner.dedupe.buffer.size": str(64 * 1024 * 1024),
    # An open HDFS block reserves its whole size on every DataNode: a gigabyte for each partition is too much.
    "log.segment.bytes": str(128 * 1024 * 1024),
    "process.roles": "broker,controller",
}
"""This server's defaults that differ from Kafka's."""

_TOPIC_DEFAULT_NAMES: Final = tuple(
    dict.fromkeys(synonym.name for key in TOPIC_CONFIGS.values() for synonym in key.synonyms)
)


_INTERVALS: Final = ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")
SHARE_RECORD_NAMES: Final = ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
"""Settings of share groups' records, which have bounds."""
_STANDBY_MAX: Final = "group.streams.max.standby.replicas"


def _base_of(name: str) -> str:
    """The config that `listener.name.NAME.…` gives one listener."""
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2]


def static_configs(node: Node, settings: Mapping[str, str]) -> dict[str, str]:
    """This node's settings, under Kafka's names. Raises InvalidConfig for an unknown name or a bad value."""
    address = f"PLAINTEXT://{node.host}:{node.port}"
    own = {
        "node.id": str(node.node_id),
        "broker.id": str(node.node_id),
        "listeners": address,
        "advertised.listeners": address,
    }
    if node.rack is not None:
        own["broker.rack"] = node.rack
    configs = {**OWN_STATIC, **own, **settings}
    for name, text in configs.items():
        if name.startswith(LISTENER_PREFIX) and _base_of(name) in BROKER_CONFIGS:
            BROKER_CONFIGS[_base_of(name)].parse(text)
            continue
        if name not in BROKER_CONFIGS:
            raise InvalidConfig(f"Unknown broker config name: {name}")
        if name in SECURITY_CONFIGS and text != BROKER_CONFIGS[name].default:
            raise InvalidConfig(f"{name} is set: other mechanisms of SASL are not served")
        BROKER_CONFIGS[name].parse(text)
    effective_values({}, BrokerConfigs(static=configs).topic_defaults)
    require_bounds(BrokerConfigs(static=configs))
    return configs


def require_bounds(configs: BrokerConfigs) -> None:
    """Raises InvalidConfig when configs contradict each other. Words of KafkaConfig and GroupCoordinatorConfig."""
    if effective_values({}, configs.topic_defaults)["retention.ms"] == 0:
        raise InvalidConfig("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    if not configs.number("max.connections"):
        raise InvalidConfig("Invalid max.connections 0: no client could connect")
    if not configs.number("max.connections.per.ip") and not configs.value_of(OVERRIDES):
        raise InvalidConfig(f"max.connections.per.ip can be set to zero only if {OVERRIDES} property is set.")
    for kind in ("consumer", "share", "streams"):
        for name in (*_INTERVALS, *(SHARE_RECORD_NAMES if kind == "share" else ())):
            own, low, high = f"group.{kind}.{name}", f"group.{kind}.min.{name}", f"group.{kind}.max.{name}"
            if configs.number(own) < configs.number(low):
                raise InvalidConfig(f"{own} must be greater than or equal to {low}")
            if configs.number(own) > configs.number(high):
                raise InvalidConfig(f"{own} must be less than or equal to {high}")
    require_transaction_checks({key.name: configs.value_of(key.name) for key in TRANSACTION_CHECK_CONFIGS})
    copies, most = configs.number("group.streams.num.standby.replicas"), configs.number(_STANDBY_MAX)
    if copies > most:
        raise InvalidConfig(f"group.streams.num.standby.replicas is {copies}, and must be at most {most}")


@dataclass(frozen=True)
class BrokerConfigs:
    """One node's broker configs, by source. `dynamic`: set for it; `dynamic_default`: set for all nodes."""

    dynamic: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    static: Mapping[str, str] = field(default_factory=dict)

    def sources_of(self, name: str) -> Iterator[tuple[ConfigSource, str]]:
        """The sources in which this config has a value, the strongest first."""
        key = BROKER_CONFIGS.get(name)
        for source, text in (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic.get(name)),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default.get(name)),
            (ConfigSource.STATIC_BROKER, self.static.get(name)),
            (ConfigSource.DEFAULT, None if key is None else key.default),
        ):
            if text is not None:
                yield source, text

    def value_of(self, name: str) -> str | None:
        """The value in force."""
        return next((text for _, text in self.sources_of(name)), None)

    def number(self, name: str) -> int:
        """The value in force of a number that always has one."""
        return int(self.value_of(name) or 0)

    @cached_property
    def topic_defaults(self) -> Mapping[str, str]:
        """Values in force of all broker configs that give a topic config its default."""
        values = {name: self.value_of(name) for name in _TOPIC_DEFAULT_NAMES}
        return {name: text for name, text in values.items() if text is not None}
