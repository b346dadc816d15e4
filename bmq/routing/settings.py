"""How a proxy deals with partitions that other nodes own (units in the names)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RouterSettings:
    """Every wait, queue and cache between a proxy and the owners is bounded by one of these."""

    move_wait_ms: int = 10_000
    """How long one caller waits for a partition that has no owner, or whose owner does not answer."""
    backoff_min_ms: int = 10
    backoff_max_ms: int = 200
    """Between tries to reach an owner; a newer metadata image ends the pause."""
    call_timeout_ms: int = 12_000
    """Longer than an owner lets a caller wait for a partition that starts (`start_wait_max_s`)."""
    drain_wait_ms: int = 1_000
    """How long the answers of a live owner that was replaced are waited for: it drains what it has taken."""
    forward_timeout_ms: int = 120_000
    """The timeout of forwarded produces: longer than any client's own, which is kept here."""
    forward_bytes_max: int = 64 * 1024 * 1024
    """Forwarded and not answered, of all partitions together; twice as much is refused."""
    tail_cache_bytes_max: int = 64 * 1024 * 1024
    """The newest batches of all partitions that are followed, together."""
    tail_wait_ms: int = 1_000
    """How long an owner lets a poll wait when nothing moves."""
    tail_grace_ms: int = 2_000
    """A poll that is not answered so long after its end is given up, and its connection with it."""
    tail_response_bytes_max: int = 4 * 1024 * 1024
    tail_idle_ms: int = 60_000
    """A partition nobody has read the end of for so long is not followed any more."""
