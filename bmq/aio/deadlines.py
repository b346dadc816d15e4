"""Many deadlines behind one timer: most waits end long before their deadline, so a timer for each would be a waste.

`discard` leaves an empty heap entry, which is dropped when it comes up, or when empty entries outnumber the others. It
drops the key at once, since the key may keep answers of many megabytes alive.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush
from typing import Any, Final, Generic, TypeVar

_EMPTY_MAX: Final = 64
_RESOLUTION_S: Final = 0.002
"""Deadlines at nearly the same time share one turn; a loop's timers may also fire a little early."""

_KEY: Final = 2  # of an entry
_GONE: Final = object()

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """Calls `expired(key)` at the key's deadline or shortly after, never before, and forgets it.

    Times are the loop's.
    """

    __slots__ = ("_due", "_entries", "_expired", "_loop", "_number", "_timer", "_timer_s")

    def __init__(self, loop: AbstractEventLoop, expired: Callable[[K], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._due: dict[K, list[Any]] = {}
        # A heap of [due (seconds), order of arrival, key]; the key is _GONE once discarded.
        self._entries: list[list[Any]] = []
        self._number = 0
        self._timer: TimerHandle | None = None
        self._timer_s = 0.0  # when it fires

    def __len__(self) -> int:
        return len(self._due)

    @property
    def entry_count(self) -> int:
        """Heap entries, including empty ones."""
        return len(self._entries)

    def add(self, key: K, due_s: float) -> None:
        """Call `expired(key)` once at `due_s` unless it is discarded. A known key gets the new time."""
        known = self._due.get(key)
        if known is not None:
            known[_KEY] = _GONE
        entries = self._entries
        if len(entries) > 2 * len(self._due) + _EMPTY_MAX:
            entries[:] = [entry for entry in entries if entry[_KEY] is not _GONE]
            heapify(entries)
        self._number += 1
        entry = self._due[key] = [due_s, self._number, key]
        heappush(entries, entry)
        if self._timer is None or due_s < self._timer_s:
            self._set_timer(due_s)

    def discard(self, key: K) -> None:
        entry = self._due.pop(key, None)
        if entry is not None:
            entry[_KEY] = _GONE

    def expire_all(self) -> None:
        """Expire all keys now, in the order they were added."""
        due, self._due = self._due, {}
        for key, entry in due.items():
            entry[_KEY] = _GONE
            self._expired(key)

    def close(self) -> None:
        """Forget all keys; nothing expires any more."""
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
            if key is _GONE:
                heappop(entries)
            elif due_s <= now_s:
                heappop(entries)
                del self._due[key]
                self._expired(key)
            else:
                break
        # `expired` may have added keys and so set the timer, but perhaps for a later time than our first entry.
        if entries and (self._timer is None or entries[0][0] < self._timer_s):
            self._set_timer(max(entries[0][0], now_s + _RESOLUTION_S))
