"""A token bucket of bytes for all connections under one quota, and the queue of connections that wait for it.

With Kafka's sliding windows a saturating client gets from 0.7 to 1.5 times its quota in half a minute, and more with many
connections. This bucket begins with 11 s of the quota, and gives exactly the quota once that is used. A request may overdraw it,
so that a request of any size passes; the next one waits until the bucket is no longer overdrawn.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from typing import Final

from bmq.proxy.mute import Mute
from bmq.security.quotas.token_bucket import TokenBucket

WAIT_AT_ONCE_MAX_MS: Final = 1_000
"""Longest wait before the bucket is checked again: another limit may be in force."""
_MUTED_CHECK_MS: Final = 20
"""How often to check whether the mute of the connection whose turn it is has ended."""


class SharedBucket:
    """The bucket. Connections wait in the order in which they came, with one request each.

    `quota`: bytes per second. `share`: the part of the quota that this process gives out.
    """

    __slots__ = ("_bucket", "_called", "_loop", "_share", "_timer", "quota", "unreported_bytes", "used_ms", "waiting")

    def __init__(self, loop: AbstractEventLoop, quota: float, share: float = 1.0) -> None:
        self._loop = loop
        self.quota = quota
        self._share = share
        self.used_ms = self._now_ms()
        self.unreported_bytes = 0
        self._bucket = TokenBucket(quota * share, self.used_ms)
        self.waiting: dict[Mute, None] = {}
        self._called: Mute | None = None
        self._timer: TimerHandle | None = None

    @property
    def limit(self) -> float:
        """The limit of this process, in bytes per second."""
        return self.quota * self._share

    def set_quota(self, quota: float) -> None:
        """Set another quota."""
        if quota != self.quota:
            self.quota = quota
            self._bucket.set_limit(self.limit, self._now_ms())

    def set_share(self, share: float) -> None:
        """Set another share of the quota."""
        if share != self._share:
            self._share = share
            self._bucket.set_limit(self.limit, self._now_ms())

    def idle_ms(self) -> int:
        """Milliseconds since bytes were last counted."""
        return self._now_ms() - self.used_ms

    def take(self, size_bytes: int) -> None:
        """Take bytes out of the bucket, which may overdraw it."""
        self.used_ms = self._now_ms()
        self.unreported_bytes += size_bytes
        self._bucket.take(size_bytes, self.used_ms)

    def wait_ms(self) -> int:
        """Milliseconds until the bucket is no longer overdrawn."""
        return self._bucket.wait_ms(self._now_ms())

    @property
    def is_idle(self) -> bool:
        """Whether the bucket is full and no connection waits, so that a new bucket would be the same."""
        return not self.waiting and self._bucket.is_full(self._now_ms())

    def may_begin(self, mute: Mute) -> bool:
        """Whether the connection may begin a request now. If not, it is held until its `go_on` is called."""
        is_next = mute is self._called or not self.waiting
        self._called = None
        if is_next and not self.wait_ms():
            self.waiting.pop(mute, None)
            return True
        self.waiting.setdefault(mute)
        mute.hold()
        self._set_timer()
        return False

    def leave(self, mute: Mute) -> None:
        """Take a closed connection out of the queue."""
        self.waiting.pop(mute, None)

    def _set_timer(self) -> None:
        if self._timer is None and self.waiting:
            wait_ms = min(self.wait_ms() or _MUTED_CHECK_MS, WAIT_AT_ONCE_MAX_MS)
            self._timer = self._loop.call_later(wait_ms / 1_000, self._call)

    def _call(self) -> None:
        self._timer = None
        for mute in tuple(self.waiting):
            if self.wait_ms():
                break
            if mute.is_timed:
                continue  # it keeps its place until the time in its client's answer is over
            del self.waiting[mute]
            self._called = mute
            mute.go_on()
            self._called = None
        self._set_timer()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)
