"""Settings of a proxy for partitions that other nodes own (units in the names)."""

from __future__ import annotations

from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Every wait, queue and cache between a proxy and the owners is bounded by one of these."""

    move_wait_ms: int = 10_000
    """How long a request waits for a partition that has no owner, or whose owner does not answer."""
    backoff_min_ms: int = 10
    """First pause between tries to reach an owner; news of the partition end it."""
    backoff_max_ms: int = 200
    """Longest such pause."""
    call_timeout_ms: int = 12_000
    """Timeout of one request to an owner; longer than `broker.start_wait_max_s`."""
    drain_wait_ms: int = 1_000
    """How long the answers of a live owner that was replaced are waited for.

    It drains what it has accepted."""
    forward_timeout_ms: int = 120_000
    """Timeout in a forwarded produce; longer than any client's own, which the proxy keeps."""
    forward_bytes_max: int = 64 * 1024 * 1024
    """Produces forwarded and not answered, together; twice as much is refused."""
    tail_cache_bytes_max: int = 64 * 1024 * 1024
    """Newest batches of other nodes' partitions, kept in memory for tail reads."""
    tail_wait_ms: int = 1_000
    """How long an owner lets a proxy wait that has read to the end."""
    tail_grace_ms: int = 2_000
    """An owner that is silent for this much longer is asked again over a new connection."""
    tail_response_bytes_max: int = 4 * 1024 * 1024
    """Most bytes of one answer of a tail stream."""
    tail_idle_ms: int = 60_000
    """A partition whose end no client has read for this time is no longer followed."""
