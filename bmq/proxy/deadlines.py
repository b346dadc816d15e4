"""One timer for all waiting requests: most end long before their deadline, so a timer for each would be wasted."""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from typing import Final

_RESOLUTION_S: Final = 0.005


class Deadlines:
    """Callbacks by deadline (the loop's time). Nothing is promised about their order."""

    __slots__ = ("_due_s", "_loop", "_timer", "_waiting")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Callable[[], None], float] = {}
        self._timer: TimerHandle | None = None
        self._due_s = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, expired: Callable[[], None], deadline_s: float) -> None:
        """Call `expired` at or shortly after `deadline_s`, unless it is discarded before."""
        self._waiting[expired] = deadline_s
        if self._timer is None or deadline_s < self._due_s:
            self._set(deadline_s)

    def discard(self, expired: Callable[[], None]) -> None:
        self._waiting.pop(expired, None)

    def close(self) -> None:
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set(self, deadline_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = max(deadline_s, self._loop.time() + _RESOLUTION_S)
        self._timer = self._loop.call_at(self._due_s, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_s = self._loop.time()
        due = [expired for expired, deadline_s in self._waiting.items() if deadline_s <= now_s]
        for expired in due:
            # An earlier callback may have discarded this one.
            if self._waiting.pop(expired, None) is not None:
                expired()
        if self._waiting and self._timer is None:
            self._set(min(self._waiting.values()))
