"""How many new connections a second a node accepts in all (`max.connection.creation.rate`) and from an address
(`connection_creation_rate`, KIP-612).

Beyond the node's rate a connection waits unread; beyond its address's it waits and is closed. Times are Kafka's: at most
one second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bmq.proxy.throttle_stats import CONNECTION, ThrottleStats
from bmq.security.quotas.entities import Quotas
from bmq.security.quotas.precedence import canonical_address, connection_rate_of
from bmq.security.quotas.rate import WINDOW_MS, Rate, rate_throttle_ms

ADDRESSES_MAX: Final = 10_000
"""Whose connections are counted; beyond it the one that made none for longest is forgotten."""


class Arrival(NamedTuple):
    """Whether a new connection is served, delayed or closed."""

    wait_ms: int = 0
    is_refused: bool = False


class ConnectionRates:
    """`now_ms`: the loop's time."""

    def __init__(self, stats: ThrottleStats, now_ms: Callable[[], int]) -> None:
        self._stats = stats
        self._now_ms = now_ms
        self._quotas: Quotas = {}
        self._node_limit: float | None = None
        self._node = Rate()
        self._hosts: dict[str, Rate] = {}

    def set_limits(self, quotas: Quotas, node_limit: float | None) -> None:
        """Other limits from now on; what was counted stays."""
        self._quotas = quotas
        self._node_limit = node_limit

    def arrived(self, host: str) -> Arrival:
        """Count a connection that was accepted."""
        now_ms = self._now_ms()
        limit = connection_rate_of(self._quotas, host)
        if limit is not None:
            rate = self._rate_of(canonical_address(host) or host, now_ms)
            wait_ms = _recorded(rate, limit, now_ms)
            if wait_ms:
                rate.record(-1, now_ms)  # it was not let in
                self._stats.note(CONNECTION, wait_ms)
                return Arrival(wait_ms, is_refused=True)
        if self._node_limit is None:
            return Arrival()
        wait_ms = _recorded(self._node, self._node_limit, now_ms)
        if wait_ms:
            self._stats.note(CONNECTION, wait_ms)
        return Arrival(wait_ms)

    def _rate_of(self, host: str, now_ms: int) -> Rate:
        rate = self._hosts.pop(host, None) or Rate()
        if len(self._hosts) >= ADDRESSES_MAX:
            oldest = next(iter(self._hosts))
            del self._hosts[oldest]
        self._hosts[host] = rate  # behind the others: the first one was not used for longest
        return rate


def _recorded(rate: Rate, limit: float, now_ms: int) -> int:
    rate.record(1, now_ms)
    measured, over_ms = rate.measure(now_ms)
    return min(rate_throttle_ms(measured, limit, over_ms), WINDOW_MS)
