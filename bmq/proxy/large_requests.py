"""Limits the memory of large requests: decoded, a request takes many times the bytes of its frame.

A large request waits here, undecoded, until there is room for its estimated memory; its connection is not read meanwhile. A
single large request always has room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from bmq.protocol.wire import ELEMENTS_MAX

DECODED_ELEMENT_BYTES: Final = 128
"""Estimated memory of an array element and its part of the answer."""
_ELEMENT_FRAME_BYTES_MIN: Final = 2
TRIM_DELAY_S: Final = 0.05
"""Delay between the last answer and trimming memory, in which answers are mostly sent; also the shortest interval of trims."""
TRIMMED_AFTER_BYTES: Final = 8 * 1024 * 1024
"""Memory is trimmed after large requests have given this much (estimated) memory back."""
HELD_S_MAX: Final = 30.0
"""Longest hold of room. After it room is given back while the request goes on, so that a waiting request cannot block others."""


def decoded_bytes(frame_bytes: int) -> int:
    """Upper estimate of the memory of a request with this frame, and of its answer."""
    return frame_bytes + min(frame_bytes // _ELEMENT_FRAME_BYTES_MIN, ELEMENTS_MAX) * DECODED_ELEMENT_BYTES


class LargeRequests:
    """The budget of one listener: admitted requests have at most `bytes_max` together. First come, first served.

    `trim`: gives freed memory back to the operating system; called soon after the last admitted request is done.
    """

    def __init__(self, bytes_max: int, trim: Callable[[], object] | None = None) -> None:
        self._bytes_max = bytes_max
        self._trim = trim
        self._given_back_bytes = 0  # bytes given back since memory was last trimmed
        self._trim_due: asyncio.TimerHandle | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.held_bytes = 0

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    async def admit(self, size_bytes: int) -> Admission:
        """Wait for room. The caller has to release the result."""
        if self._waiting or not self._has_room(size_bytes):
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.append((size_bytes, waiting))
            try:
                await waiting
            except asyncio.CancelledError:
                if waiting.done() and not waiting.cancelled():
                    self.give_back(size_bytes)  # it was admitted and cancelled in one turn
                else:
                    self._waiting = deque(pair for pair in self._waiting if pair[1] is not waiting)
                    self._admit_waiting()  # this request may have been the one that the others waited behind
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
    """The room of one request."""

    def __init__(self, budget: LargeRequests, size_bytes: int) -> None:
        self._budget = budget
        self._size_bytes = size_bytes
        self._timer = asyncio.get_running_loop().call_later(HELD_S_MAX, self.release)

    def release(self) -> None:
        """Give the room back. Further calls do nothing."""
        self._timer.cancel()
        size_bytes, self._size_bytes = self._size_bytes, 0
        if size_bytes:
            self._budget.give_back(size_bytes)
