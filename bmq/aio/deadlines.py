"""Many deadlines behind one timer: most waits end long before theirs, so a timer for each would be waste.

`discard` leaves a stale heap entry behind: it is dropped when it comes up, or when stale ones outnumber the others.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

_STALE_MAX: Final = 64
_RESOLUTION_S: Final = 0.002
"""Several that are due at nearly the same time share a turn; a loop's timers may also fire a little early."""

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """`expired(key)`: called at the key's deadline or shortly after it, never before, and forgets the key. Times are the loop's."""

    __slots__ = ("_due", "_entries", "_expired", "_loop", "_number", "_timer", "_timer_s")

    def __init__(self, loop: AbstractEventLoop, expired: Callable[[K], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._due: dict[K, float] = {}
        self._entries: list[tuple[float, int, K]] = []  # a heap: when (seconds), in which order it came, key
        self._number = 0
        self._timer: TimerHandle | None = None
        self._timer_s = 0.0  # when it fires

    def __len__(self) -> int:
        return len(self._due)

    @property
    def entry_count(self) -> int:
        """Entries kept, those that are over included."""
        return len(self._entries)

    def add(self, key: K, due_s: float) -> None:
        """Call `expired(key)` once at `due_s` unless it is discarded. A key that is there already gets the new time."""
        entries = self._entries
        if len(entries) > 2 * len(self._due) + _STALE_MAX:
            entries[:] = [entry for entry in entries if self._due.get(entry[2]) == entry[0]]
            heapify(entries)
        self._due[key] = due_s
        self._number += 1
        heappush(entries, (due_s, self._number, key))
        if self._timer is None or due_s < self._timer_s:
            self._set_timer(due_s)

    def discard(self, key: K) -> None:
        self._due.pop(key, None)

    def expire_all(self) -> None:
        """Everybody's time is over now, in the order in which they came."""
        due, self._due = self._due, {}
        for key in due:
            self._expired(key)

    def close(self) -> None:
        """Nothing expires any more."""
        self._due.clear()
        self._entries.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = when_s
        self._timer = self._loop.call_at(when_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        entries = self._entries
        while entries:
            due_s, _, key = entries[0]
            if self._due.get(key) != due_s:
                heappop(entries)
            elif due_s <= now_s:
                heappop(entries)
                del self._due[key]
                self._expired(key)
            else:
                break
        if entries and self._timer is None:
            self._set_timer(max(entries[0][0], now_s + _RESOLUTION_S))
