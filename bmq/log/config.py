"""The settings of one topic's logs, already parsed and checked. Names and defaults are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bmq.log.lanes.stamps import LaneRule
from bmq.log.store import Durability


class BacklogPolicy(StrEnum):
    """What happens while a topic's backlog is over its quota. Source: Pulsar's BacklogQuota.RetentionPolicy."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configs that the log and the partition obey (units in the names; -1: no limit)."""

    segment_bytes: int = 128 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_index_interval_bytes: int = 4096
    segment_idle_close_ms: int = 60_000
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    retention_groups: tuple[str, ...] = ()
    retention_groups_max_ms: int = 14 * 24 * 3600 * 1000
    backlog_quota_bytes: int = -1
    backlog_quota_ms: int = -1
    backlog_quota_policy: BacklogPolicy = BacklogPolicy.PRODUCER_REQUEST_HOLD
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588
    message_timestamp_type_is_append_time: bool = False
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    compression_level: int | None = None  # of that codec; None: its default one
    validates_compressed: bool = True
    """Whether the records of compressed batches are read; those of uncompressed ones always are."""
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    is_state_log: bool = False
    """Whether it is a coordinator's log: snapshots replace its old segments, so it is not compacted."""
    min_insync_replicas: int = 1
    durability: Durability = Durability.HFLUSH
    is_delay_enabled: bool = False
    """Whether records are held until the time that their headers ask for."""
    delay_max_ms: int = 7 * 24 * 3600 * 1000
    retry_levels_ms: tuple[int, ...] = ()
    """Of a retry topic: how long a record waits after its first, second, … attempt. Such a topic has delay."""
    is_half_enabled: bool = False
    """Whether records are held until they are committed or rolled back, if their headers ask for it."""
    half_check_first_ms: int = 6_000
    half_check_interval_ms: int = 30_000
    half_checks_max: int = 15
    half_check_url: str = ""
    half_check_topic: str = ""
    half_given_up_topic: str = ""
    has_lanes_validated: bool = False
    """Whether records with a bad lane are refused."""
    lane_producers: tuple[LaneRule, ...] = ()
    """Whose records get a lane at the proxy."""

    @property
    def holds_records(self) -> bool:
        """Whether its partitions have records that no client may ask their owner to append."""
        return self.is_delay_enabled or self.is_half_enabled

    @property
    def roll_ms(self) -> int:
        """How long a segment stays open: only a closed one can be compacted (LogConfig.maxSegmentMs)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if "compact" in self.cleanup_policy else self.segment_ms

    @property
    def has_backlog_quota(self) -> bool:
        return self.backlog_quota_bytes >= 0 or self.backlog_quota_ms >= 0
