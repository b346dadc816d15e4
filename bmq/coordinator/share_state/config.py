"""Settings of the shards that keep the state of share partitions. Names and defaults are Kafka's (units in the names). Pure."""

from __future__ import annotations

from bmq.dataclass import dataclass

LOCK_DURATION_MAX_MS = 3_600_000
"""The longest lock that a configuration allows."""


@dataclass(frozen=True, slots=True)
class ShareStateConfig:
    """Limits of this process. Those of a group are in bmq.coordinator.config.ShareConfig."""

    message_max_bytes: int = 1_048_588
    """Size limit of one record."""
    partitions_per_shard_max: int = 50_000
    """Share partitions with state, per shard; initializing one beyond it gets COORDINATOR_NOT_AVAILABLE."""
    waits_max: int = 10_000
    """ShareWaits under way in this process; one beyond it is answered at once."""
    wait_max_ms: int = 30_000
    """The longest ShareWait."""
    load_wait_max_ms: int = 5_000
    """How long a request waits for its shard to load before COORDINATOR_LOAD_IN_PROGRESS."""
    shards_loading_max: int = 8
    """Shards that load at the same time."""
    shards_inheriting_max: int = 1
    """Limit, within shards_loading_max, for shards taken over from another owner that nothing has asked for."""
    load_retry_min_ms: int = 20
    load_retry_max_ms: int = 2_000
    """First and longest pause before such a shard is loaded again after a failure."""
    snapshot_records_max: int = 10_000
    """Take the next snapshot after this many records: a failover replays the records since the last one."""
    snapshot_bytes_max: int = 16 * 1024 * 1024
