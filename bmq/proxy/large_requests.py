"""Memory of large requests while they are decoded and answered: a message takes many times the bytes of its frame.

A large request waits here, undecoded, until there is room for what it may become; its connection is not read meanwhile.
One that is alone always has room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from bmq.protocol.wire import ELEMENTS_MAX

DECODED_ELEMENT_BYTES: Final = 128
"""Memory of an array element and its part of the answer, about."""
_ELEMENT_FRAME_BYTES_MIN: Final = 2
TRIM_DELAY_S: Final = 0.05
"""Answers are mostly sent by then. It is also how often memory is trimmed at most."""
TRIMMED_AFTER_BYTES: Final = 8 * 1024 * 1024
"""Of estimated memory that was given back."""
HELD_S_MAX: Final = 30.0
"""Room is given back after that, though the request goes on: one that waits for others must not stop all large ones."""


def decoded_bytes(frame_bytes: int) -> int:
    """Upper estimate of the memory of a request and its answer."""
    return frame_bytes + min(frame_bytes // _ELEMENT_FRAME_BYTES_MIN, ELEMENTS_MAX) * DECODED_ELEMENT_BYTES


class LargeRequests:
    """The budget of one listener: `bytes_max` for all that are admitted. First come, first served.

    `trim`: gives freed memory back to the system; called soon after the last of several is done.
    """

    def __init__(self, bytes_max: int, trim: Callable[[], object] | None = None) -> None:
        self._bytes_max = bytes_max
        self._trim = trim
        self._given_back_bytes = 0  # since memory was last trimmed
        self._trim_due: asyncio.TimerHandle | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.held_bytes = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def admit(self, size_bytes: int) -> Admission:
        """Wait for room. The result is to be released."""
        if self._waiting or not self._has_room(size_bytes):
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append((size_bytes, waiting))
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self.give_back(size_bytes)  # admitted and cancelled in one turn
                else:
                    self._waiting = deque(pair for pair in self._waiting if pair[1] is not waiting)
                    self._admit_waiting()  # it may have been the one that had no room
                raise
        else:
            self.held_bytes += size_bytes
        return Admission(self, size_bytes)

    def give_back(self, size_bytes: int) -> None:
        self.held_bytes -= size_bytes
        self._admit_waiting()
        self._given_back_bytes += size_bytes
        if self._given_back_bytes >= TRIMMED_AFTER_BYTES and self._trim is not None and self._trim_due is None:
            self._trim_due = asyncio.get_running_loop().call_later(TRIM_DELAY_S, self._trim_now)

    def _trim_now(self) -> None:
        assert self._trim is not None
        self._trim_due = None
        self._given_back_bytes = 0
        self._trim()

    def _has_room(self, size_bytes: int) -> bool:
        return not self.held_bytes or self.held_bytes + size_bytes <= self._bytes_max

    def _admit_waiting(self) -> None:
        while self._waiting and self._has_room(self._waiting[0][0]):
            size_bytes, waiting = self._waiting.popleft()
            if not waiting.done():
                self.held_bytes += size_bytes
                waiting.set_result(None)


class Admission:
    """One request's room."""

    def __init__(self, budget: LargeRequests, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self._timer = asyncio.get_running_loop().call_later(HELD_S_MAX, self.release)

    def release(self) -> None:
        """Give the room back; more than once is the same as once."""
        self._timer.cancel()
        size_bytes, self._size_bytes = self._size_bytes, 0
        if size_bytes:
            self._budget.give_back(size_bytes)
