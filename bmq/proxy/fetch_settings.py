"""Limits of the fetch path. Where Kafka has the same setting, the name and the default are Kafka's."""

from __future__ import annotations

from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Every cache, queue and wait of the fetch path is bounded by one of these."""

    fetch_max_bytes: int = 55 * 1024 * 1024  # for one response; one batch may be longer (KIP-74)
    """`fetch.max.bytes`: most bytes of one answer."""
    fetch_response_bytes_max: int = 256 * 1024 * 1024  # held by unsent responses; beyond it they carry one batch
    """Bytes of records in answers that are not sent yet; beyond it an answer has one batch."""
    fetch_wait_ms_max: int = 60_000  # longer waits are cut, and may return less than min_bytes
    """Longest wait of a fetch for `min_bytes`."""
    fetch_waiting_max: int = 50_000  # waiting requests; beyond it they are answered with what there is
    """Fetches that wait for records; beyond it they are answered with the records found so far."""
    fetch_start_wait_ms: int = 200  # how long partitions with records wait for a starting one
    """How long a fetch with records waits for a partition that is being started."""
    fetch_session_slots_max: int = 1_000
    """`max.incremental.fetch.session.cache.slots`."""
    fetch_session_partitions_max: int = 200_000  # in all sessions together; some 300 bytes each
    """Partitions of all fetch sessions together."""
    fetch_session_eviction_ms: int = 120_000
    """A fetch session that was not used for this long may be evicted."""
    fetch_rack_again_ms: int = 60_000  # before a consumer that came back is sent to its own rack again
    """How long a consumer that came back from a proxy in its rack is not sent there again (KIP-392)."""
    fetch_rack_redirects_max: int = 100_000  # remembered redirects; beyond it the earliest are forgotten
    """Redirects to a proxy in the consumer's rack that are remembered: one for each consumer and partition."""
    read_cache_bytes_max: int = 64 * 1024 * 1024
    """Chunks of segment files that each process keeps in memory for catch-up reads."""
    view_cache_bytes_max: int = 16 * 1024 * 1024  # of batches that were filtered
    """Filtered batches of views and lanes that each process keeps in memory."""
    read_chunk_bytes: int = 1024 * 1024
    """Size of such a chunk."""
    read_ahead_chunks_max: int = 2  # beyond a sequential reader's last read
    """Chunks that are read ahead for a sequential reader; at the end of a segment those of the next one."""
    read_ahead_bytes_max: int = 16 * 1024 * 1024  # reads ahead in flight, for all readers
    """Bytes that are being read ahead at once, for all readers."""
    read_cursors_max: int = 10_000
    """Sequential readers whose position is remembered."""
    read_cursor_age_ms: int = 15_000  # of a remembered position: compaction may have replaced the file since
    """How long a position is remembered; then the partition's owner is asked again for the file."""
    catch_up_slowdown_max: float = 1.5  # of the 99th percentile of produces by catch-up reads; 0: no limit on these
    """How many times its value without catch-up reads the p99 of produces may reach before these are slowed; `0`: never."""
    catch_up_bytes_per_s_min: int = 4 * 1024 * 1024  # always allowed, however slow produces are
    """Bytes per second that catch-up reads always get from one proxy."""
    catch_up_behind_bytes: int = 2 * 1024 * 1024  # readers closer to the end than this have no limit
    """A reader with less than about this distance to the end of a partition is never slowed."""
    catch_up_slice_bytes: int = 512 * 1024  # for one fetch while they are limited
    """Bytes that one fetch reads while catch-up reads are slowed."""
    read_attempts_max: int = 3  # look-ups of one offset when its file is gone each time
    """How often an offset is looked up again if its file is gone each time."""
