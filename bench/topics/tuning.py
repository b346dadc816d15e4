"""What is set on either side."""

from __future__ import annotations

from typing import Final

from bench.runner import Setting

CHECK_INTERVAL_MS: Final = 500
SEGMENT_BYTES: Final = 64 * 1024 * 1024
DELETE_DELAY_MS: Final = 1_000

SETTINGS: Final = (
    Setting(
        "both",
        "log.cleaner.backoff.ms",
        f"{CHECK_INTERVAL_MS}; broker.compaction_check_interval_ms",
        "15000",
        "not measured: with it most of the time is spent waiting for the next look",
    ),
    Setting(
        "both",
        "segment.bytes",
        f"{SEGMENT_BYTES}",
        "1073741824, of bmq 134217728",
        "not measured: the same files on both sides",
    ),
    Setting(
        "Apache Kafka",
        "log.segment.delete.delay.ms",
        f"{DELETE_DELAY_MS}",
        "60000",
        "not measured: with it files of deleted topics go after the measurement; bmq waits for 1000 ms by default",
    ),
    Setting(
        "Apache Kafka",
        "log.cleaner.io.max.bytes.per.second, .threads, .dedupe.buffer.size",
        "no limit, 1, 134217728",
        "the same",
        "nothing is set",
    ),
)
