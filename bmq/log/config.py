"""The settings of one topic's logs, already parsed and checked. Names and defaults are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass

from bmq.log.store import Durability


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Kafka's topic configs that the log and the partition obey (units in the names; -1: no limit)."""

    segment_bytes: int = 128 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    segment_index_interval_bytes: int = 4096
    segment_idle_close_ms: int = 60_000
    retention_ms: int = 7 * 24 * 3600 * 1000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    max_message_bytes: int = 1_048_588
    message_timestamp_type_is_append_time: bool = False
    message_timestamp_before_max_ms: int = 2**63 - 1
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_insync_replicas: int = 1
    durability: Durability = Durability.HFLUSH
