"""The transaction coordinator's settings. Names and defaults are Kafka's (units in the names)."""

from __future__ import annotations

from bmq.coordinator.transactions.transaction import MAX_EPOCH
from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """Settings of the coordinator and its shards; those after `message_max_bytes` are bmq's own."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3600 * 1000
    abort_timed_out_interval_ms: int = 10_000
    """Interval between searches for timed out transactions."""
    remove_expired_interval_ms: int = 3_600_000
    message_max_bytes: int = 1_048_588
    """Size limit of one id's record, which holds all partitions of its transaction."""

    last_epoch: int = MAX_EPOCH
    """After this epoch a producer gets another id. Tests lower it, because 32,767 transactions take long."""
    transactional_ids_per_shard_max: int = 200_000
    """A new one beyond it gets COORDINATOR_NOT_AVAILABLE."""
    add_wait_max_ms: int = 1_000
    """How long adding partitions waits for others being added, before CONCURRENT_TRANSACTIONS."""
    end_wait_max_ms: int = 250
    """How long a request that begins an id's next transaction waits for the end of the last one, before
    CONCURRENT_TRANSACTIONS: an end takes milliseconds, and clients pause for 20 to 100 before they retry."""
    load_wait_max_ms: int = 5_000
    """How long a request waits for its shard to load before COORDINATOR_LOAD_IN_PROGRESS."""
    shards_loading_max: int = 8
    """Shards that load at the same time."""
    shards_inheriting_max: int = 1
    """Limit, within shards_loading_max, for shards taken over from another owner that no client has asked for."""
    snapshot_records_max: int = 10_000
    """Take the next snapshot after this many records, or after an eighth of the state's size if that is more."""
    snapshot_bytes_max: int = 16 * 1024 * 1024
    ids_per_turn_max: int = 500
    """Transactional ids processed in one turn of the event loop."""
    markers_at_once_max: int = 500
    """Markers in flight to one partition."""
    retry_min_ms: int = 20
    retry_max_ms: int = 2_000
    """First and longest pause before a marker, or the record of a completed transaction, is retried."""
