"""The group coordinator's settings. Names and defaults are Kafka's (units in the names). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bmq.coordinator.subscription_type import subscription_of
from bmq.dataclass import dataclass
from bmq.protocol.dead_letters import DeadLetterTerms
from bmq.protocol.retry_backoff import backoff_of


class GroupTerms(NamedTuple):
    """The timeouts and intervals of one group's members."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


@dataclass(frozen=True, slots=True)
class NewGroupConfig:
    """Settings that consumer groups and streams groups share (KIP-848, KIP-1071)."""

    session_timeout_ms: int = 45_000
    min_session_timeout_ms: int = 45_000
    max_session_timeout_ms: int = 60_000
    heartbeat_interval_ms: int = 5_000
    min_heartbeat_interval_ms: int = 5_000
    max_heartbeat_interval_ms: int = 15_000
    assignment_interval_ms: int = 1_000
    min_assignment_interval_ms: int = 0
    max_assignment_interval_ms: int = 15_000

    def intervals(self, prefix: str, group_configs: Mapping[str, str]) -> GroupTerms:
        """With the group's own configs under `prefix`; a value outside the present bounds is clamped to them."""

        def value(name: str, default: int, low: int, high: int) -> int:
            return _bounded(group_configs.get(f"{prefix}.{name}"), default, low, high)

        return GroupTerms(
            value(
                "session.timeout.ms",
                self.session_timeout_ms,
                self.min_session_timeout_ms,
                self.max_session_timeout_ms,
            ),
            value(
                "heartbeat.interval.ms",
                self.heartbeat_interval_ms,
                self.min_heartbeat_interval_ms,
                self.max_heartbeat_interval_ms,
            ),
            value(
                "assignment.interval.ms",
                self.assignment_interval_ms,
                self.min_assignment_interval_ms,
                self.max_assignment_interval_ms,
            ),
        )


@dataclass(frozen=True, slots=True)
class ConsumerConfig(NewGroupConfig):
    """Settings of consumer groups: Kafka's `group.consumer.*` (KIP-848)."""

    max_size: int = 2**31 - 1
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is the default unless most members prefer another."""
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000
    regex_pause_ms: int = 10_000
    """Least time between two scans of all topics for one group's regular expressions."""
    unsettled_heartbeat_interval_ms: int = 1_000
    """Heartbeat interval for members of an unsettled group. Not less: librdkafka abandons a heartbeat, and closes its
    connection, when the answer takes as long as the interval."""
    unsettled_heartbeats_per_s_max: int = 1_000
    """Total over all members of unsettled groups in this process; with more members the interval grows."""

    def terms(self, group_configs: Mapping[str, str]) -> GroupTerms:
        """With the group's own configs."""
        return self.intervals("consumer", group_configs)


class StreamsTerms(NamedTuple):
    """The settings of one streams group's members. `standby_replicas`: extra copies of each stateful task."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    initial_rebalance_delay_ms: int
    standby_replicas: int


@dataclass(frozen=True, slots=True)
class StreamsConfig(NewGroupConfig):
    """Settings of streams groups: Kafka's `group.streams.*` (KIP-1071)."""

    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    standby_replicas: int = 0
    max_standby_replicas: int = 2
    task_offset_interval_ms: int = 60_000
    acceptable_recovery_lag: int = 10_000

    def terms(self, group_configs: Mapping[str, str]) -> StreamsTerms:
        """With the group's own configs; a value outside the present bounds is clamped to them."""

        def value(name: str, default: int, high: int) -> int:
            return _bounded(group_configs.get(f"streams.{name}"), default, 0, high)

        return StreamsTerms(
            *self.intervals("streams", group_configs),
            value("initial.rebalance.delay.ms", self.initial_rebalance_delay_ms, 2**31 - 1),
            value("num.standby.replicas", self.standby_replicas, self.max_standby_replicas),
        )


class RecordLimits(NamedTuple):
    """`delivery_count_limit`: a record that was given so often is not given again."""

    delivery_count_limit: int
    record_locks_max: int


class ShareRecordTerms(NamedTuple):
    """The settings of one share group's records. `is_single_active`, `is_keyed`: see SubscriptionType. `backoff`: see
    bmq.protocol.retry_backoff. `dead_letters`: None: it has none.
    """

    limits: RecordLimits
    lock_duration_ms: int
    may_renew: bool
    is_single_active: bool = False
    backoff: tuple[int, ...] = ()
    dead_letters: DeadLetterTerms | None = None
    is_keyed: bool = False


@dataclass(frozen=True, slots=True)
class ShareConfig(NewGroupConfig):
    """Settings of share groups: Kafka's `group.share.*` (KIP-932)."""

    max_size: int = 200
    record_lock_duration_ms: int = 30_000
    min_record_lock_duration_ms: int = 15_000
    max_record_lock_duration_ms: int = 60_000
    delivery_count_limit: int = 5
    min_delivery_count_limit: int = 2
    max_delivery_count_limit: int = 10
    partition_max_record_locks: int = 2_000
    min_partition_max_record_locks: int = 100
    max_partition_max_record_locks: int = 4_000

    def terms(self, group_configs: Mapping[str, str]) -> GroupTerms:
        """With the group's own configs."""
        return self.intervals("share", group_configs)

    def record_terms(self, group_configs: Mapping[str, str]) -> ShareRecordTerms:
        """With the group's own configs; a value outside the present bounds is clamped to them."""
        limits = RecordLimits(
            _bounded(
                group_configs.get("share.delivery.count.limit"),
                self.delivery_count_limit,
                self.min_delivery_count_limit,
                self.max_delivery_count_limit,
            ),
            _bounded(
                group_configs.get("share.partition.max.record.locks"),
                self.partition_max_record_locks,
                self.min_partition_max_record_locks,
                self.max_partition_max_record_locks,
            ),
        )
        lock_duration_ms = _bounded(
            group_configs.get("share.record.lock.duration.ms"),
            self.record_lock_duration_ms,
            self.min_record_lock_duration_ms,
            self.max_record_lock_duration_ms,
        )
        subscription = subscription_of(group_configs)
        may_renew = group_configs.get("share.renew.acknowledge.enable", "true").strip().lower() != "false"
        return ShareRecordTerms(
            limits,
            lock_duration_ms,
            may_renew,
            subscription.is_single_active,
            backoff_of(group_configs.get("bmq.share.retry.backoff", "")),
            _dead_letters(group_configs),
            subscription.is_keyed,
        )


def _dead_letters(group_configs: Mapping[str, str]) -> DeadLetterTerms | None:
    topic = group_configs.get("errors.deadletterqueue.topic.name", "").strip()
    if not topic:
        return None
    is_copying = group_configs.get("errors.deadletterqueue.copy.record.enable", "true").strip().lower() != "false"
    return DeadLetterTerms(topic, is_copying, group_configs.get("bmq.share.dead.letter.policy", "").strip() == "drop")


def _bounded(text: str | None, default: int, low: int, high: int) -> int:
    return default if text is None else max(low, min(int(text), high))


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """Settings of group.py, offsets.py and the runtime; those from `group_pending_members_max` on are bmq's own."""

    consumer: ConsumerConfig = ConsumerConfig()
    streams: StreamsConfig = StreamsConfig()
    share: ShareConfig = ShareConfig()

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2**31 - 1
    group_new_member_join_timeout_ms: int = 300_000
    offset_metadata_max_bytes: int = 4_096
    message_max_bytes: int = 1_048_588
    """Size limit of one group's record, which holds all its members."""
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    offsets_retention_check_interval_ms: int = 600_000

    group_pending_members_max: int = 10_000
    """Member ids given out whose members have not joined yet, per group; beyond it GROUP_MAX_SIZE_REACHED."""
    group_protocols_max: int = 1_000
    """Protocols that one member may name in JoinGroup; beyond it UNKNOWN_SERVER_ERROR."""
    members_bytes_per_shard_max: int = 32 * 1024 * 1024
    """Memory of what members of classic groups have said, per shard; a JoinGroup that needs more gets
    COORDINATOR_NOT_AVAILABLE."""
    members_bytes_max: int = 128 * 1024 * 1024
    """The same, for all shards of this process: some 70,000 groups of one member."""
    groups_per_shard_max: int = 50_000
    """Groups with members or a record, per shard; a new one beyond it gets COORDINATOR_NOT_AVAILABLE."""
    load_wait_max_ms: int = 5_000
    """How long a request waits for its shard to load before COORDINATOR_LOAD_IN_PROGRESS."""
    shards_loading_max: int = 8
    """Shards that load at the same time."""
    snapshot_records_max: int = 10_000
    """Take the next snapshot after this many records, or after an eighth of the state's size if that is more: a
    failover replays the records since the last one while all clients of the shard wait."""
    snapshot_bytes_max: int = 16 * 1024 * 1024
    expiry_offsets_per_turn_max: int = 2_000
    """Offsets that expiry examines in one turn of the event loop."""
