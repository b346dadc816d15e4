"""The settings of one topic's logs, already parsed and checked. Names and defaults are Kafka's."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from bmq.dataclass import dataclass
from bmq.log.lanes.stamps import LaneRule
from bmq.log.store import Durability

NEVER_MS: Final = 2**62
"""As `segment_idle_close_ms`: a segment that is not written to stays open."""


class BacklogPolicy(StrEnum):
    """The policy for a topic whose backlog is over its quota. Source: Pulsar's BacklogQuota.RetentionPolicy."""

    PRODUCER_REQUEST_HOLD = "producer_request_hold"
    PRODUCER_EXCEPTION = "producer_exception"
    CONSUMER_BACKLOG_EVICTION = "consumer_backlog_eviction"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The topic configs that the log and the partition use: Kafka's, and those named bmq.*. -1 means no limit."""

    segment_bytes: int = 128 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_index_interval_bytes: int = 4096
    segment_idle_close_ms: int = 60_000
    segment_merge_max_bytes: int = 0
    """Neighbouring closed segments are merged into one of at most so many bytes; 0: never."""
    segment_merge_min_count: int = 8
    segment_merge_lag_ms: int = 600_000
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
    compression_level: int | None = None  # the level of that codec; None: its default
    validates_compressed: bool = True
    """Whether the records of compressed batches are checked at append, as those of uncompressed ones always are."""
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    delete_retention_ms: int = 24 * 3600 * 1000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    is_state_log: bool = False
    """Whether the log is a coordinator's: snapshots replace its old segments, so it is not compacted."""
    min_insync_replicas: int = 1
    durability: Durability = Durability.HFLUSH
    is_delay_enabled: bool = False
    """Whether records are held until the time that their headers ask for."""
    delay_max_ms: int = 7 * 24 * 3600 * 1000
    retry_levels_ms: tuple[int, ...] = ()
    """For a retry topic, how long a record waits after its first, second, … attempt. Such a topic has delayed records."""
    is_half_enabled: bool = False
    """Whether half messages are held until they are committed or rolled back."""
    half_check_first_ms: int = 6_000
    half_check_interval_ms: int = 30_000
    half_checks_max: int = 15
    half_check_url: str = ""
    half_check_topic: str = ""
    half_given_up_topic: str = ""
    has_lanes_validated: bool = False
    """Whether records whose lane is not valid are refused."""
    lane_producers: tuple[LaneRule, ...] = ()
    """Rules by which the proxy gives producers' records a lane."""
    takes_answers: bool = False
    """Whether records answer checks of open transactions at the proxy, and are not stored."""

    @property
    def holds_records(self) -> bool:
        """Whether partitions hold records back (delayed or half messages), so that owners append announcements and deliveries."""
        return self.is_delay_enabled or self.is_half_enabled

    @property
    def roll_ms(self) -> int:
        """How long a segment stays open at most. Only closed ones can be compacted (source: Kafka's LogConfig.maxSegmentMs)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if "compact" in self.cleanup_policy else self.segment_ms

    @property
    def has_backlog_quota(self) -> bool:
        return self.backlog_quota_bytes >= 0 or self.backlog_quota_ms >= 0
