"""Settings of a proxy for partitions that other nodes own (units in the names)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Every wait, queue and cache between a proxy and the owners is bounded by one of these."""

    move_wait_ms: int = 10_000
    """How long one caller waits for a partition that has no owner, or whose owner does not answer."""
    backoff_min_ms: int = 10
    backoff_max_ms: int = 200
    """Pauses between tries to reach an owner; a newer metadata image ends a pause."""
    call_timeout_ms: int = 12_000
    """Longer than an owner lets a caller wait for a starting partition (`start_wait_max_s`)."""
    drain_wait_ms: int = 1_000
    """How long to wait for the answers of a live owner that was replaced: it drains what it has accepted."""
    forward_timeout_ms: int = 120_000
    """Timeout of forwarded produces: longer than any client's own timeout, which this proxy enforces."""
    forward_bytes_max: int = 64 * 1024 * 1024
    """Bytes forwarded and not answered, over all partitions; twice as much is refused."""
    tail_cache_bytes_max: int = 64 * 1024 * 1024
    """The newest batches of all followed partitions, together."""
    tail_wait_ms: int = 1_000
    """How long an owner holds a poll without news."""
    tail_grace_ms: int = 2_000
    """A poll that is still unanswered this long after its end is given up, and its connection with it."""
    tail_response_bytes_max: int = 4 * 1024 * 1024
    tail_idle_ms: int = 60_000
    """A partition whose end nobody has read for this long is no longer followed."""
