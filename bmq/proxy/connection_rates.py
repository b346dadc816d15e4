"""Limits the rate of new connections of a node (`max.connection.creation.rate`) and of an address (`connection_creation_rate`).

Above the node's rate a new connection waits unread. Above its address's rate it waits and is then closed. It waits for one second
at most. Source: KIP-612.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bmq.proxy.throttle_stats import CONNECTION, ThrottleStats
from bmq.security.quotas.entities import Quotas
from bmq.security.quotas.precedence import canonical_address, connection_rate_of
from bmq.security.quotas.rate import WINDOW_MS, Rate, rate_throttle_ms

ADDRESSES_MAX: Final = 10_000
"""Most addresses whose connections are counted. Of more, the address whose last connection is oldest is forgotten."""


class Arrival(NamedTuple):
    """The decision about a new connection: it is served, delayed or closed."""

    wait_ms: int = 0
    is_refused: bool = False


class ConnectionRates:
    """Counts the new connections of a node. `now_ms`: returns the event loop's time."""

    def __init__(self, stats: ThrottleStats, now_ms: Callable[[], int]) -> None:
        self._stats = stats
        self._now_ms = now_ms
        self._quotas: Quotas = {}
        self._node_limit: float | None = None
        self._node = Rate()
        self._hosts: dict[str, Rate] = {}

    def set_limits(self, quotas: Quotas, node_limit: float | None) -> None:
        """Set other limits; counts stay."""
        self._quotas = quotas
        self._node_limit = node_limit

    def arrived(self, host: str) -> Arrival:
        """Count an accepted connection, and decide what to do with it."""
        now_ms = self._now_ms()
        limit = connection_rate_of(self._quotas, host)
        if limit is not None:
            rate = self._rate_of(canonical_address(host) or host, now_ms)
            wait_ms = _recorded(rate, limit, now_ms)
            if wait_ms:
                rate.record(-1, now_ms)  # a refused connection does not count
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
        self._hosts[host] = rate  # moves the address to the end: the first one was unused for longest
        return rate


def _recorded(rate: Rate, limit: float, now_ms: int) -> int:
    rate.record(1, now_ms)
    measured, over_ms = rate.measure(now_ms)
    return min(rate_throttle_ms(measured, limit, over_ms), WINDOW_MS)
