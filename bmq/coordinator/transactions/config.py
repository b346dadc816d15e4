"""The transaction coordinator's settings. Names and defaults are Kafka's (units in the names)."""

from __future__ import annotations

from dataclasses import dataclass

from bmq.coordinator.transactions.transaction import MAX_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """What the coordinator and its shards obey; the lower half is ours."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 7 * 24 * 3600 * 1000
    abort_timed_out_interval_ms: int = 10_000
    """How often transactions whose time is over are looked for."""
    remove_expired_interval_ms: int = 3_600_000
    message_max_bytes: int = 1_048_588
    """Of one id's record, all partitions of its transaction in it."""

    last_epoch: int = MAX_EPOCH
    """Behind it a producer gets another id. A lower one is for tests: 32,767 transactions take long."""
    transactional_ids_per_shard_max: int = 200_000
    """A new one beyond it gets COORDINATOR_NOT_AVAILABLE."""
    add_wait_max_ms: int = 1_000
    """How long adding partitions waits for others being added, before CONCURRENT_TRANSACTIONS."""
    end_wait_max_ms: int = 250
    """How long who begins the next transaction of an id waits for the end of its last one, before CONCURRENT_TRANSACTIONS:
    an end takes milliseconds, and clients pause for 20 to 100 before they ask again."""
    load_wait_max_ms: int = 5_000
    """How long a request waits for its shard to load before COORDINATOR_LOAD_IN_PROGRESS."""
    shards_loading_max: int = 8
    """Shards that load at the same time."""
    shards_inheriting_max: int = 1
    """Of those, the ones that were another owner's and that nobody has asked for."""
    snapshot_records_max: int = 10_000
    """Records behind the last snapshot before the next, or an eighth of what the state has if that is more."""
    snapshot_bytes_max: int = 16 * 1024 * 1024
    ids_per_turn_max: int = 500
    """Transactional ids looked at in one turn of the event loop."""
    markers_at_once_max: int = 500
    """On their way into one partition."""
    retry_min_ms: int = 20
    retry_max_ms: int = 2_000
    """First and longest pause before a marker, or the record that a transaction is complete, is tried again."""
