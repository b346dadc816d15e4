"""Every topic config of Kafka 4.3 and our own (`bmq.…`): names, allowed values, and their effect on the log. Pure.

`validate` decides whether a topic may have a set of configs; `log_config` turns them, together with the broker's
defaults, into a LogConfig. Names, types, defaults and ranges are those of LogConfig in Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, cast

from bmq.log.config import BacklogPolicy, LogConfig
from bmq.log.store import Durability
from bmq.metadata.answer_configs import ANSWER_ENABLE, ANSWER_TOPIC_CONFIG
from bmq.metadata.config_keys import (
    NO_EFFECT,
    BrokerSynonym,
    Check,
    ConfigKey,
    ConfigType,
    InvalidConfig,
    Value,
    at_least,
    between,
    between_or,
    group_ids,
    one_of,
    table_of,
    throttled_replicas,
)
from bmq.metadata.dead_letter_configs import DEAD_LETTER_TOPIC_CONFIG
from bmq.metadata.half_configs import HALF_CONFIGS, require_half
from bmq.metadata.lane_configs import LANE_TOPIC_CONFIGS, LANE_VALIDATE, lane_producers
from bmq.metadata.retry_configs import RETRY_LEVELS_CONFIG, check_levels, levels_ms
from bmq.metadata.view_configs import VIEW_CONFIGS, validate_view

VALUE_LENGTH_MAX: Final = 32_767
CONFIGS_PER_RESOURCE_MAX: Final = 1_000

_LONG_MAX: Final = str(2**63 - 1)
_HOUR_MS: Final = 3_600_000
_MINUTE_MS: Final = 60_000
_GZIPS_DEFAULT: Final = -1
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)


def _key(
    name: str,
    config_type: ConfigType,
    default: str,
    documentation: str,
    check: Check | None = None,
    *synonyms: str | BrokerSynonym,
) -> ConfigKey:
    behind = tuple(s if isinstance(s, BrokerSynonym) else BrokerSynonym(s) for s in synonyms)
    return ConfigKey(name, config_type, default, documentation, check, behind)


TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = table_of(
    _key(
        "bmq.backlog.quota.bytes",
        _LONG,
        "-1",
        "Bytes of a partition that the slowest of bmq.retention.groups may have left to consume; bmq.backlog.quota.policy "
        "says what happens beyond it. -1: no limit.",
        between_or(1, 2**63 - 1, -1),
    ),
    _key(
        "bmq.backlog.quota.ms",
        _LONG,
        "-1",
        "Age that the oldest record may have which the slowest of bmq.retention.groups has left to consume. -1: no limit.",
        between_or(1, 2**63 - 1, -1),
    ),
    _key(
        "bmq.backlog.quota.policy",
        _STRING,
        BacklogPolicy.PRODUCER_REQUEST_HOLD.value,
        "While bmq.backlog.quota.bytes or .ms is exceeded: 'producer_request_hold' refuses records with a retriable error, so "
        "that producers wait; 'producer_exception' with POLICY_VIOLATION, so that they fail at once; "
        "'consumer_backlog_eviction' deletes the oldest segments.",
        one_of(*(policy.value for policy in BacklogPolicy)),
    ),
    _key(
        "bmq.compressed.validation.enable",
        _BOOLEAN,
        "true",
        "Whether the records of compressed batches are read before they are stored, as Kafka does. false believes their "
        "headers: look-ups by time and retention go by what the producer says. Compacted topics always read them.",
    ),
    _key(
        "bmq.delay.enable",
        _BOOLEAN,
        "false",
        "Records with the header bmq-deliver-at (ms since 1970) or bmq-deliver-after (ms, or a level from 1 to 18) are appended "
        "when they are due. Such a topic is not compacted and takes no transactions. 'false' delivers what is pending.",
    ),
    _key(
        "bmq.delay.max.ms",
        _LONG,
        "604800000",
        "Longest delay that a record may ask for; one that asks for more is refused. Retention keeps records that are pending.",
        at_least(1),
    ),
    _key(
        "bmq.durability",
        _STRING,
        "hflush",
        "When a write is acknowledged: 'hflush' once it is in the memory of every replica, 'hsync' once it is on their "
        "disks. flush.messages=1 asks for hsync too, unless this is set.",
        one_of(*(mode.value for mode in Durability)),
        "bmq.durability",
    ),
    _key(
        "bmq.retention.groups",
        _LIST,
        "",
        "Consumer groups for which retention.ms and retention.bytes keep what they have not consumed, by their committed "
        "offsets; a group without a committed offset has consumed nothing.",
        group_ids,
    ),
    _key(
        "bmq.retention.groups.max.ms",
        _LONG,
        "1209600000",
        "Age above which a segment is kept for bmq.retention.groups no longer; -1: no limit.",
        at_least(-1),
    ),
    _key(
        "bmq.segment.idle.close.ms",
        _LONG,
        "60000",
        "A partition without writes for this long closes its open segment, so that open files follow the traffic.",
        at_least(1),
        "bmq.segment.idle.close.ms",
    ),
    _key(
        "bmq.segment.merge.lag.ms",
        _LONG,
        "600000",
        "Age of its newest record from which on a segment may be merged.",
        at_least(0),
        "bmq.segment.merge.lag.ms",
    ),
    _key(
        "bmq.segment.merge.max.bytes",
        _LONG,
        "0",
        "Neighbouring closed segments are merged into one of at most so many bytes (and of segment.bytes, over a time of "
        "segment.ms at most), which saves objects of the NameNode; 0: never. Compacted topics are merged by their compaction.",
        at_least(0),
        "bmq.segment.merge.max.bytes",
    ),
    _key(
        "bmq.segment.merge.min.count",
        _INT,
        "8",
        "Least number of neighbouring segments that are merged at once; fewer make fewer files, and more copies.",
        at_least(2),
        "bmq.segment.merge.min.count",
    ),
    *VIEW_CONFIGS,
    _key(
        "cleanup.policy",
        _LIST,
        "delete",
        "'delete' drops old segments by time and size, 'compact' keeps the newest record of each key; or both.",
        one_of("compact", "delete"),
        "log.cleanup.policy",
    ),
    _key(
        "compression.gzip.level",
        _INT,
        "-1",
        "Level for gzip where the server compresses; -1 is the library's default.",
        between_or(1, 9, -1),
        "compression.gzip.level",
    ),
    _key(
        "compression.lz4.level",
        _INT,
        "9",
        "Level for lz4 where the server compresses.",
        between(1, 17),
        "compression.lz4.level",
    ),
    _key(
        "compression.type",
        _STRING,
        "producer",
        "Codec of the stored batches; 'producer' keeps what the producer chose.",
        one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        "compression.type",
    ),
    _key(
        "compression.zstd.level",
        _INT,
        "3",
        "Level for zstd where the server compresses.",
        between(-131072, 22),
        "compression.zstd.level",
    ),
    _key(
        "delete.retention.ms",
        _LONG,
        "86400000",
        "How long a tombstone outlives the compaction that met it, so that readers from the start still see it.",
        at_least(0),
        "log.cleaner.delete.retention.ms",
    ),
    DEAD_LETTER_TOPIC_CONFIG,
    RETRY_LEVELS_CONFIG,
    *HALF_CONFIGS,
    *LANE_TOPIC_CONFIGS,
    ANSWER_TOPIC_CONFIG,
    _key(
        "file.delete.delay.ms",
        _LONG,
        "60000",
        "How long the files of a dropped segment stay, for readers that are still in them.",
        at_least(0),
        "log.segment.delete.delay.ms",
    ),
    _key(
        "flush.messages",
        _LONG,
        _LONG_MAX,
        "1: a write is acknowledged from disk; other values change nothing.",
        at_least(1),
        "log.flush.interval.messages",
    ),
    _key(
        "flush.ms",
        _LONG,
        _LONG_MAX,
        f"{NO_EFFECT}bmq.durability says when data is on disk.",
        at_least(0),
        "log.flush.interval.ms",
        "log.flush.scheduler.interval.ms",
    ),
    _key(
        "follower.replication.throttled.replicas",
        _LIST,
        "",
        f"{NO_EFFECT}Accepted for reassignment tools: no data moves.",
        throttled_replicas,
    ),
    _key(
        "index.interval.bytes",
        _INT,
        "4096",
        "Bytes of records between two entries of the offset index.",
        at_least(0),
        "log.index.interval.bytes",
    ),
    _key(
        "leader.replication.throttled.replicas",
        _LIST,
        "",
        f"{NO_EFFECT}Accepted for reassignment tools: no data moves.",
        throttled_replicas,
    ),
    _key(
        "local.retention.bytes",
        _LONG,
        "-2",
        f"{NO_EFFECT}There is no tiered storage: every byte is in the shared store already.",
        at_least(-2),
        "log.local.retention.bytes",
    ),
    _key(
        "local.retention.ms",
        _LONG,
        "-2",
        f"{NO_EFFECT}There is no tiered storage: every byte is in the shared store already.",
        at_least(-2),
        "log.local.retention.ms",
    ),
    _key(
        "max.compaction.lag.ms",
        _LONG,
        _LONG_MAX,
        "A record is compacted at the latest this long after it was written.",
        at_least(1),
        "log.cleaner.max.compaction.lag.ms",
    ),
    _key(
        "max.message.bytes",
        _INT,
        "1048588",
        "Largest record batch that is accepted, after compression.",
        at_least(0),
        "message.max.bytes",
    ),
    _key(
        "message.timestamp.after.max.ms",
        _LONG,
        "3600000",
        "How far a record's create time may lie ahead of the server's clock.",
        at_least(0),
        "log.message.timestamp.after.max.ms",
    ),
    _key(
        "message.timestamp.before.max.ms",
        _LONG,
        _LONG_MAX,
        "How far a record's create time may lie behind the server's clock.",
        at_least(0),
        "log.message.timestamp.before.max.ms",
    ),
    _key(
        "message.timestamp.type",
        _STRING,
        "CreateTime",
        "The time of a record: the producer's (CreateTime) or the server's (LogAppendTime).",
        one_of("CreateTime", "LogAppendTime"),
        "log.message.timestamp.type",
    ),
    _key(
        "min.cleanable.dirty.ratio",
        _DOUBLE,
        "0.5",
        "Share of a log that has to be uncompacted before it is compacted again.",
        between(0, 1),
        "log.cleaner.min.cleanable.ratio",
    ),
    _key(
        "min.compaction.lag.ms",
        _LONG,
        "0",
        "A record stays uncompacted at least this long.",
        at_least(0),
        "log.cleaner.min.compaction.lag.ms",
    ),
    _key(
        "min.insync.replicas",
        _INT,
        "1",
        "Replicas that have to hold a write of a producer with acks=all before it is acknowledged.",
        at_least(1),
        "min.insync.replicas",
    ),
    _key(
        "preallocate",
        _BOOLEAN,
        "false",
        f"{NO_EFFECT}The store decides how files are allocated.",
        None,
        "log.preallocate",
    ),
    _key(
        "remote.log.copy.disable",
        _BOOLEAN,
        "false",
        f"{NO_EFFECT}There is no tiered storage: every byte is in the shared store already.",
    ),
    _key(
        "remote.log.delete.on.disable",
        _BOOLEAN,
        "false",
        f"{NO_EFFECT}There is no tiered storage: every byte is in the shared store already.",
    ),
    _key(
        "remote.storage.enable",
        _BOOLEAN,
        "false",
        f"{NO_EFFECT}There is no tiered storage, so true is refused.",
    ),
    _key(
        "retention.bytes",
        _LONG,
        "-1",
        "Size of a partition above which its oldest segments are dropped; -1: no limit.",
        None,
        "log.retention.bytes",
    ),
    _key(
        "retention.ms",
        _LONG,
        "604800000",
        "Age above which segments are dropped; -1: no limit.",
        at_least(-1),
        "log.retention.ms",
        BrokerSynonym("log.retention.minutes", _MINUTE_MS),
        BrokerSynonym("log.retention.hours", _HOUR_MS),
    ),
    _key(
        "segment.bytes",
        _INT,
        "1073741824",
        "Size at which a segment is closed and the next one begun. The unit of retention and of compaction.",
        at_least(1024 * 1024),
        "log.segment.bytes",
    ),
    _key(
        "segment.index.bytes",
        _INT,
        "10485760",
        f"{NO_EFFECT}An index has a fixed limit of entries, at which its segment is closed.",
        at_least(4),
        "log.index.size.max.bytes",
    ),
    _key(
        "segment.jitter.ms",
        _LONG,
        "0",
        f"{NO_EFFECT}Segments of idle partitions are closed after bmq.segment.idle.close.ms, so they do not all end at once.",
        at_least(0),
        "log.roll.jitter.ms",
        BrokerSynonym("log.roll.jitter.hours", _HOUR_MS),
    ),
    _key(
        "segment.ms",
        _LONG,
        "604800000",
        "Age at which a segment is closed even when it is not full, so that retention can reach it.",
        at_least(1),
        "log.roll.ms",
        BrokerSynonym("log.roll.hours", _HOUR_MS),
    ),
    _key(
        "unclean.leader.election.enable",
        _BOOLEAN,
        "false",
        f"{NO_EFFECT}Whether a partition may go on from a log that lost acknowledged records is decided by an operator, by name.",
        None,
        "unclean.leader.election.enable",
    ),
)


def validate(configs: Mapping[str, str], broker: Mapping[str, str], topic: str | None = None) -> None:
    """Whether a topic may have exactly these configs. Raises InvalidConfig for the first that it may not.

    `broker`: effective values of the broker configs, which apply where the topic sets none. `topic`: its name, where it is known.
    """
    for name, text in configs.items():
        if name not in TOPIC_CONFIGS:
            raise InvalidConfig(f"Unknown topic config name: {name}")
        if len(text.encode()) > VALUE_LENGTH_MAX:
            raise InvalidConfig(
                f"The configuration value of {name} cannot be added because it exceeds the maximum value size of "
                f"{VALUE_LENGTH_MAX} bytes."
            )
    validate_view(configs)
    values = effective_values(configs, broker)
    least, most = cast(int, values["min.compaction.lag.ms"]), cast(int, values["max.compaction.lag.ms"])
    if least > most:
        raise InvalidConfig(
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})"
        )
    for name in ("bmq.backlog.quota.bytes", "bmq.backlog.quota.ms"):
        if values[name] != -1:
            _check_backlog_quota(name, values)
    if values["bmq.delay.enable"] and "compact" in cast(tuple[str, ...], values["cleanup.policy"]):
        raise InvalidConfig(
            "bmq.delay.enable holds records back, which compaction cannot see: cleanup.policy must be delete"
        )
    check_levels(values, topic)
    require_half(values)
    if values["remote.storage.enable"]:
        raise InvalidConfig(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
        )


def _check_backlog_quota(name: str, values: Mapping[str, Value]) -> None:
    if not values["bmq.retention.groups"]:
        raise InvalidConfig(
            f"{name} is about what groups have not consumed: bmq.retention.groups must name at least one"
        )
    is_evicting = values["bmq.backlog.quota.policy"] == BacklogPolicy.CONSUMER_BACKLOG_EVICTION
    if is_evicting and "delete" not in cast(tuple[str, ...], values["cleanup.policy"]):
        raise InvalidConfig(
            "bmq.backlog.quota.policy consumer_backlog_eviction deletes segments: cleanup.policy must include delete"
        )


def effective_values(configs: Mapping[str, str], broker: Mapping[str, str]) -> dict[str, Value]:
    """Every topic config's value: the topic's, else the broker's, else the default. Raises InvalidConfig."""
    values: dict[str, Value] = {}
    for name, key in TOPIC_CONFIGS.items():
        text = configs.get(name)
        if text is None:
            text = inherited(key, broker)
        values[name] = key.parse(text)
    return values


def inherited(key: ConfigKey, broker: Mapping[str, str]) -> str:
    """The value for a topic that does not set this config, in the topic config's unit."""
    for synonym in key.synonyms:
        text = broker.get(synonym.name)
        if text is not None:
            return text if synonym.factor == 1 else str(int(text) * synonym.factor)
    return key.default or ""


def log_config(configs: Mapping[str, str], broker: Mapping[str, str]) -> LogConfig:
    """The LogConfig of a topic with these configs. Raises InvalidConfig for values `validate` would refuse."""
    return _log_config(tuple(sorted(configs.items())), tuple(sorted(broker.items())))


@lru_cache(maxsize=4096)
def _log_config(configs: tuple[tuple[str, str], ...], broker: tuple[tuple[str, str], ...]) -> LogConfig:
    own = dict(configs)
    values = effective_values(own, dict(broker))

    def number(name: str) -> int:
        return cast(int, values[name])

    durability = Durability(cast(str, values["bmq.durability"]))
    if "bmq.durability" not in own and number("flush.messages") == 1:
        durability = Durability.HSYNC
    compression_type = cast(str, values["compression.type"])
    retry_levels_ms = levels_ms(values)
    return LogConfig(
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        segment_index_interval_bytes=number("index.interval.bytes"),
        segment_idle_close_ms=number("bmq.segment.idle.close.ms"),
        segment_merge_max_bytes=number("bmq.segment.merge.max.bytes"),
        segment_merge_min_count=number("bmq.segment.merge.min.count"),
        segment_merge_lag_ms=number("bmq.segment.merge.lag.ms"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        retention_groups=cast(tuple[str, ...], values["bmq.retention.groups"]),
        retention_groups_max_ms=number("bmq.retention.groups.max.ms"),
        backlog_quota_bytes=number("bmq.backlog.quota.bytes"),
        backlog_quota_ms=number("bmq.backlog.quota.ms"),
        backlog_quota_policy=BacklogPolicy(cast(str, values["bmq.backlog.quota.policy"])),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        max_message_bytes=number("max.message.bytes"),
        message_timestamp_type_is_append_time=values["message.timestamp.type"] == "LogAppendTime",
        message_timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        message_timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        compression_type=compression_type,
        compression_level=_compression_level(compression_type, values),
        validates_compressed=cast(bool, values["bmq.compressed.validation.enable"]),
        cleanup_policy=frozenset(cast(tuple[str, ...], values["cleanup.policy"])),
        delete_retention_ms=number("delete.retention.ms"),
        min_cleanable_dirty_ratio=cast(float, values["min.cleanable.dirty.ratio"]),
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        min_insync_replicas=number("min.insync.replicas"),
        durability=durability,
        is_delay_enabled=cast(bool, values["bmq.delay.enable"]) or bool(retry_levels_ms),
        delay_max_ms=number("bmq.delay.max.ms"),
        retry_levels_ms=retry_levels_ms,
        is_half_enabled=cast(bool, values["bmq.half.enable"]),
        half_check_first_ms=number("bmq.half.check.first.ms"),
        half_check_interval_ms=number("bmq.half.check.interval.ms"),
        half_checks_max=number("bmq.half.check.max"),
        half_check_url=cast(str, values["bmq.half.check.url"]),
        half_check_topic=cast(str, values["bmq.half.check.topic"]),
        half_given_up_topic=cast(str, values["bmq.half.given.up.topic"]),
        has_lanes_validated=cast(bool, values[LANE_VALIDATE]),
        lane_producers=lane_producers(values),
        takes_answers=cast(bool, values[ANSWER_ENABLE]),
    )


def _compression_level(compression_type: str, values: Mapping[str, Value]) -> int | None:
    level = values.get(f"compression.{compression_type}.level")
    is_default = compression_type == "gzip" and level == _GZIPS_DEFAULT
    return None if level is None or is_default else cast(int, level)
