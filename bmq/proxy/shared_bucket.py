"""A bucket of bytes that all connections of its sharers draw from, and the queue of those that wait for it.

Kafka's sliding windows let a saturating client have from 0.7 to 1.5 times its quota in half a minute, and more with many
connections. This bucket starts with 11 s' worth, and gives exactly the quota once that is used. A request may overdraw
it, so one of any size passes; the next one waits until nothing is owed.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from typing import Final

from bmq.proxy.mute import Mute
from bmq.security.quotas.token_bucket import TokenBucket

WAIT_AT_ONCE_MAX_MS: Final = 1_000
"""After this time the bucket is looked at again: another limit may be in force."""
_MUTED_LOOK_MS: Final = 20
"""How often it is looked whether a muted connection, which has its turn, is read again."""


class SharedBucket:
    """Connections wait in the order in which they came, one request each.

    `quota`: bytes per second; `share`: the part of it that is given out here.
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
        """Bytes per second in force here."""
        return self.quota * self._share

    def set_quota(self, quota: float) -> None:
        """Another quota from now on."""
        if quota != self.quota:
            self.quota = quota
            self._bucket.set_limit(self.limit, self._now_ms())

    def set_share(self, share: float) -> None:
        """Another part of the quota from now on."""
        if share != self._share:
            self._share = share
            self._bucket.set_limit(self.limit, self._now_ms())

    def idle_ms(self) -> int:
        """Since something was counted last."""
        return self._now_ms() - self.used_ms

    def take(self, size_bytes: int) -> None:
        """Count bytes."""
        self.used_ms = self._now_ms()
        self.unreported_bytes += size_bytes
        self._bucket.take(size_bytes, self.used_ms)

    def wait_ms(self) -> int:
        """How long until nothing is owed."""
        return self._bucket.wait_ms(self._now_ms())

    @property
    def is_idle(self) -> bool:
        """Full and not waited for: a new bucket would be the same."""
        return not self.waiting and self._bucket.is_full(self._now_ms())

    def may_begin(self, mute: Mute) -> bool:
        """Whether the connection may begin a request now; else it is held, and called when it may."""
        is_next = mute is self._called or not self.waiting
        self._called = None
        if is_next and not self.wait_ms():
            self.waiting.pop(mute, None)
            return True
        self.waiting.setdefault(mute)
        mute.hold()
        self._arm()
        return False

    def leave(self, mute: Mute) -> None:
        """The connection is gone."""
        self.waiting.pop(mute, None)

    def _arm(self) -> None:
        if self._timer is None and self.waiting:
            wait_ms = min(self.wait_ms() or _MUTED_LOOK_MS, WAIT_AT_ONCE_MAX_MS)
            self._timer = self._loop.call_later(wait_ms / 1_000, self._call)

    def _call(self) -> None:
        self._timer = None
        for mute in tuple(self.waiting):
            if self.wait_ms():
                break
            if mute.is_timed:
                continue  # it keeps its place until the time that its client was told is over
            del self.waiting[mute]
            self._called = mute
            mute.go_on()
            self._called = None
        self._arm()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1_000)
