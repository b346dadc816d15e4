"""A token bucket, as Kafka counts changes of the metadata (KIP-599): `limit` tokens a second, at most 11 s' worth.

It may go below zero once: the request that empties it passes whole. Source: stats.TokenBucket (kafka-clients 4.3).
"""

from __future__ import annotations

from bmq.security.quotas.rate import SAMPLES, WINDOW_MS, rounded

_BURST_S = SAMPLES * WINDOW_MS / 1_000


class TokenBucket:
    """Full at first. Times are milliseconds of one clock that does not go back."""

    __slots__ = ("_filled_ms", "_limit", "_tokens")

    def __init__(self, limit: float, now_ms: int) -> None:
        self._limit = limit
        self._tokens = limit * _BURST_S
        self._filled_ms = now_ms

    def set_limit(self, limit: float, now_ms: int) -> None:
        """Another limit from now on; tokens beyond its burst are lost."""
        self._fill(now_ms)
        self._limit = limit
        self._tokens = min(self._tokens, limit * _BURST_S)

    def take(self, tokens: float, now_ms: int) -> None:
        """Take tokens, whether they are there or not."""
        self._fill(now_ms)
        self._tokens = min(self._limit * _BURST_S, self._tokens - tokens)

    def wait_ms(self, now_ms: int) -> int:
        """How long until no token is owed; 0: none is."""
        self._fill(now_ms)
        return rounded(-self._tokens / self._limit * 1_000) if self._tokens < 0 else 0

    def is_full(self, now_ms: int) -> bool:
        """Whether it has all tokens it may have."""
        self._fill(now_ms)
        return self._tokens >= self._limit * _BURST_S

    @property
    def tokens(self) -> float:
        return self._tokens

    def _fill(self, now_ms: int) -> None:
        self._tokens = min(self._limit * _BURST_S, self._tokens + self._limit * (now_ms - self._filled_ms) / 1_000)
        self._filled_ms = now_ms
