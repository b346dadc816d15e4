"""Applies a client's quotas to one connection: implements bmq.protocol.request_context.Throttle.

An answer leaves at once, with the time to wait in it, and then the connection is muted for that time (KIP-219): clients
that do not wait by themselves are held up by that. A produce is not begun while its bucket owes something.
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
    """None in place of a bucket: no such quota holds for the client."""

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
        """Whether a request may be begun; else its connection is held until it may. Counts a produce's bytes."""
        if api_key != ApiKey.PRODUCE or self._produce is None:
            return True
        if not self._produce.may_begin(self._mute):
            return False
        self._produce.take(size_bytes)
        return True

    def call(self, work: Callable[[], None]) -> None:
        """Run a handler that answers without a task; its time may count."""
        if self._time is None:
            work()
        else:
            self._time.call(work)

    async def drive(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a handler; the time it runs may count."""
        return await (work if self._time is None else self._time.drive(work))

    def produced(self) -> int:
        """See Throttle."""
        return self._throttle_time_ms(PRODUCE, 0 if self._produce is None else self._produce.wait_ms())

    def fetch_wait_ms(self) -> int:
        """See Throttle."""
        return self._throttle_time_ms(FETCH, 0 if self._fetch is None else self._fetch.wait_ms())

    def fetched(self, size_bytes: int) -> int:
        """See Throttle."""
        if self._fetch is None:
            return self._throttle_time_ms(FETCH, 0)
        self._fetch.take(size_bytes)
        return self._throttle_time_ms(FETCH, self._fetch.wait_ms())

    @property
    def fetch_bytes_max(self) -> int:
        """The bytes that the quota allows in ten seconds, as in Kafka: a larger answer would only mean a longer wait."""
        return _NO_LIMIT if self._fetch is None else max(int(self._fetch.limit * _WINDOW_S), 1)

    def answered(self, told_ms: int) -> int:
        """See Throttle."""
        return self._throttle_time_ms(CONTROLLER_MUTATION, told_ms)

    def close(self) -> None:
        """The connection is gone."""
        if self._produce is not None:
            self._produce.leave(self._mute)

    def _throttle_time_ms(self, quota: str, wait_ms: int) -> int:
        """The longer of this time and the one for the time that requests took; the connection is muted for it."""
        time_ms = 0 if self._time is None else self._time.wait_ms()
        if time_ms > wait_ms:
            quota, wait_ms = REQUEST, time_ms
        if wait_ms <= 0:
            return 0
        wait_ms = min(wait_ms, _TOLD_MS_MAX)
        self._stats.note(quota, wait_ms)
        self._mute.last(wait_ms)
        return wait_ms
