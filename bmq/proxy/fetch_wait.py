"""Fetches that wait for records: one wake-up per partition, however many consumers wait for it.

A log is asked once to call back at its next move; who waits for it by then is woken together. A callback that finds
nobody waiting any more costs nothing, so it is not taken back: most waits are renewed by the consumer's next fetch.
Deadlines have one timer for all: most waits end long before theirs, so a timer for each would be wasted.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Final

from bmq.log.partition_log import PartitionLog

_RESOLUTION_S: Final = 0.002

Wake = Callable[[], None]


class PartitionWaits:
    """Who waits for which log. At most one callback is registered with a log at any time."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[PartitionLog, tuple[dict[Wake, None], Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, log: PartitionLog, wake: Wake) -> None:
        """Call `wake` once at the log's next move, unless it is discarded before the move."""
        entry = self._waiting.get(log)
        if entry is None:
            entry = self._waiting[log] = ({}, log.on_advance(lambda: self._fire(log)))
        entry[0][wake] = None

    def discard(self, log: PartitionLog, wake: Wake) -> None:
        entry = self._waiting.get(log)
        if entry is not None:
            entry[0].pop(wake, None)

    def close(self) -> None:
        """Take every callback back and forget who waits."""
        waiting, self._waiting = self._waiting, {}
        for _, take_back in waiting.values():
            take_back()

    def _fire(self, log: PartitionLog) -> None:
        entry = self._waiting.pop(log, None)
        if entry is None:
            return
        for wake in entry[0]:
            wake()


class Deadlines:
    """Who is to be called when no records came in time. Times are the loop's."""

    __slots__ = ("_due", "_due_s", "_loop", "_timer")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[Wake, float] = {}
        self._timer: TimerHandle | None = None
        self._due_s = 0.0  # when the timer fires

    def __len__(self) -> int:
        return len(self._due)

    def add(self, expire: Wake, due_s: float) -> None:
        """Call `expire` once at or shortly after `due_s`, never before, unless it is discarded."""
        self._due[expire] = due_s
        if self._timer is None or due_s < self._due_s:
            self._set_timer(due_s)

    def discard(self, expire: Wake) -> None:
        self._due.pop(expire, None)

    def expire_all(self) -> None:
        """Call everybody now."""
        due, self._due = self._due, {}
        for expire in due:
            expire()

    def close(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = due_s
        self._timer = self._loop.call_later(max(due_s - self._loop.time(), 0.0), self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        for expire in [expire for expire, due_s in self._due.items() if due_s <= now_s]:
            # An earlier one may have discarded this one, or given it a new time.
            if self._due.get(expire, now_s + 1) <= now_s:
                del self._due[expire]
                expire()
        if self._due and self._timer is None:
            # Several that are due at nearly the same time share a turn; a loop may also fire a little early.
            self._set_timer(max(min(self._due.values()), now_s + _RESOLUTION_S))
