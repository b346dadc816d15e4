"""Limits of the fetch path. Where Kafka has the same setting, the name and the default are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Every cache, queue and wait of the fetch path is bounded by one of these."""

    fetch_max_bytes: int = 55 * 1024 * 1024  # for one response; one batch may be longer (KIP-74)
    """`fetch.max.bytes`: of one answer."""
    fetch_response_bytes_max: int = 256 * 1024 * 1024  # held by unsent responses; beyond it they carry one batch
    """Held by answers not sent yet; beyond it they carry one batch."""
    fetch_wait_ms_max: int = 60_000  # longer waits are cut, and may return less than min_bytes
    """Longest wait for min_bytes."""
    fetch_waiting_max: int = 50_000  # waiting requests; beyond it they are answered with what there is
    """Waiting requests; beyond it they are answered with the bytes there are."""
    fetch_start_wait_ms: int = 200  # how long partitions with records wait for a starting one
    """How long partitions with records wait for one that is being started."""
    fetch_session_slots_max: int = 1_000
    """`max.incremental.fetch.session.cache.slots`."""
    fetch_session_partitions_max: int = 200_000  # in all sessions together; some 300 bytes each
    """Partitions remembered by all sessions together."""
    fetch_session_eviction_ms: int = 120_000
    """A session unused for this long may be evicted."""
    fetch_rack_again_ms: int = 60_000  # before a consumer that came back is sent to its own rack again
    """Before a consumer with a rack that came back is sent to a proxy of that rack again (KIP-392)."""
    fetch_rack_redirects_max: int = 100_000  # remembered redirects; beyond it the earliest are forgotten
    """Redirects remembered for that: consumers and partitions."""
    read_cache_bytes_max: int = 64 * 1024 * 1024
    """Catch-up reads: chunks kept in memory, of each process."""
    view_cache_bytes_max: int = 16 * 1024 * 1024  # of batches that were filtered
    """Views and lanes: filtered batches kept in memory, of each process."""
    read_chunk_bytes: int = 1024 * 1024
    """Size of a chunk."""
    read_ahead_chunks_max: int = 2  # beyond a sequential reader's last read
    """Chunks read ahead of a sequential reader, at the end of a segment from the next one."""
    read_ahead_bytes_max: int = 16 * 1024 * 1024  # reads ahead in flight, for all readers
    """Being read ahead at once, for all readers."""
    read_cursors_max: int = 10_000
    """Sequential readers remembered."""
    read_cursor_age_ms: int = 15_000  # of a remembered position: compaction may have replaced the file since
    """How long one is remembered; then its partition's owner is asked again for the file."""
    catch_up_slowdown_max: float = 1.5  # of the 99th percentile of produces by catch-up reads; 0: no limit on these
    """How many times its calm value the p99 of produces may reach before catch-up reads are slowed; `0`: never."""
    catch_up_bytes_per_s_min: int = 4 * 1024 * 1024  # always allowed, however slow produces are
    """Bytes per second that catch-up reads always get from one proxy."""
    catch_up_behind_bytes: int = 2 * 1024 * 1024  # readers closer to the end than this have no limit
    """A reader with less than about this distance to the end of a partition is never slowed."""
    catch_up_slice_bytes: int = 512 * 1024  # for one fetch while they are limited
    """Bytes of one fetch while catch-up reads are slowed."""
    read_attempts_max: int = 3  # look-ups of one offset when its file is gone each time
    """Look-ups of one offset whose file is gone each time."""
