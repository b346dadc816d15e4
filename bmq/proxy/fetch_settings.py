"""Limits of the fetch path. Where Kafka has the same setting, the name and the default are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Every cache, queue and wait of the fetch path is bounded by one of these."""

    fetch_max_bytes: int = 55 * 1024 * 1024  # of one response; one batch may be longer (KIP-74)
    fetch_response_bytes_max: int = 256 * 1024 * 1024  # held by responses not sent yet; beyond it they carry one batch
    fetch_wait_ms_max: int = 60_000  # a client that asks for more is answered with less than its min_bytes
    fetch_waiting_max: int = 50_000  # requests that wait; beyond it they are answered with what there is
    fetch_start_wait_ms: int = 200  # how long partitions with records wait for one that is being started
    fetch_session_slots_max: int = 1_000
    fetch_session_partitions_max: int = 1_000_000  # remembered by all sessions together
    fetch_session_eviction_ms: int = 120_000
    fetch_rack_again_ms: int = 60_000  # before a consumer that came back is sent to a proxy of its own rack again
    fetch_rack_told_max: int = 100_000  # consumers and partitions that were; beyond it the earliest are forgotten
    read_cache_bytes_max: int = 64 * 1024 * 1024
    read_chunk_bytes: int = 1024 * 1024
    read_ahead_chunks_max: int = 2  # beyond what a sequential reader was just given
    read_ahead_bytes_max: int = 16 * 1024 * 1024  # being read ahead at once, for all readers
    read_cursors_max: int = 10_000
    catch_up_slowdown_max: float = 1.5  # of produces, their 99th percentile, by catch-up reads; 0: these have no limit
    catch_up_bytes_per_s_min: int = 4 * 1024 * 1024  # what they get however slow produces are
    catch_up_behind_bytes: int = 2 * 1024 * 1024  # a reader with less than that to the end of a partition has no limit
    catch_up_slice_bytes: int = 512 * 1024  # of one fetch, while they are limited
    read_attempts_max: int = 3  # look-ups of one offset whose file is gone each time
