"""Applies a client's quotas to one connection. Implements bmq.protocol.request_context.Throttle.

An answer leaves at once and carries the time to wait. Then the connection is muted for that time (KIP-219), which slows clients
that do not wait by themselves. A produce is not begun while its bucket is overdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from bmq.protocol.apis import ApiKey
from bmq.proxy.mute import Mute
from bmq.proxy.request_time import RequestTime
from bmq.proxy.shared_bucket import SharedBucket
from bmq.proxy.throttle_stats import CONTROLLER_MUTATION, FETCH, PRODUCE, REQUEST, ThrottleStats
from bmq.security.quotas.rate import SAMPLES, WINDOW_MS

T = TypeVar("T")
_TOLD_MS_MAX: Final = 2**31 - 1
_NO_LIMIT: Final = 2**31 - 1
_WINDOW_S: Final = (SAMPLES - 1) * WINDOW_MS / 1_000


class ClientThrottle:
    """One connection's throttle. A bucket that is None: the client has no such quota."""

    __slots__ = ("_fetch", "_mute", "_produce", "_stats", "_time")

    def __init__(
        self,
        produce: SharedBucket | None,
        fetch: SharedBucket | None,
        time: RequestTime | None,
        mute: Mute,
        stats: ThrottleStats,
    ) -> None:
        self._produce = produce
        self._fetch = fetch
        self._time = time
        self._mute = mute
        self._stats = stats

    def may_begin(self, api_key: int, size_bytes: int) -> bool:
        """Whether a request may be begun; if so, counts a produce's bytes. If not, the connection is held until it may."""
        if api_key != ApiKey.PRODUCE or self._produce is None:
            return True
        if not self._produce.may_begin(self._mute):
            return False
        self._produce.take(size_bytes)
        return True

    def call(self, work: Callable[[], None]) -> None:
        """Run a handler that answers without a task, and count its time if there is a quota on request time."""
        if self._time is None:
            work()
        else:
            self._time.call(work)

    async def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a handler, and count the time it runs if there is a quota on request time."""
        return await (work if self._time is None else self._time.drive(work))

    def produced(self) -> int:
        """Implements Throttle.produced."""
        return self._throttle_time_ms(PRODUCE, 0 if self._produce is None else self._produce.wait_ms())

    def fetch_wait_ms(self) -> int:
        """Implements Throttle.fetch_wait_ms."""
        return self._throttle_time_ms(FETCH, 0 if self._fetch is None else self._fetch.wait_ms())

    def fetched(self, size_bytes: int) -> int:
        """Implements Throttle.fetched."""
        if self._fetch is None:
            return self._throttle_time_ms(FETCH, 0)
        self._fetch.take(size_bytes)
        return self._throttle_time_ms(FETCH, self._fetch.wait_ms())

    @property
    def fetch_bytes_max(self) -> int:
        """The most bytes of a fetch's answer: what the quota allows in ten seconds, as in Kafka."""
        return _NO_LIMIT if self._fetch is None else max(int(self._fetch.limit * _WINDOW_S), 1)

    def answered(self, throttle_ms: int) -> int:
        """Implements Throttle.answered."""
        return self._throttle_time_ms(CONTROLLER_MUTATION, throttle_ms)

    def close(self) -> None:
        """The connection is closed: leave all queues."""
        if self._produce is not None:
            self._produce.leave(self._mute)

    def _throttle_time_ms(self, quota: str, wait_ms: int) -> int:
        """Mute the connection for `wait_ms`, or for the wait of the request-time quota if that is longer. Returns that time."""
        time_ms = 0 if self._time is None else self._time.wait_ms()
        if time_ms > wait_ms:
            quota, wait_ms = REQUEST, time_ms
        if wait_ms <= 0:
            return 0
        wait_ms = min(wait_ms, _TOLD_MS_MAX)
        self._stats.note(quota, wait_ms)
        self._mute.last(wait_ms)
        return wait_ms
