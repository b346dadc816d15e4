"""Opens batches that take longer than a turn of the event loop has: in two threads, one for batches of usual size.

A partition has at most one batch here at a time, so the queues are bounded by the number of partitions. The second thread
takes what does not fit into a few megabytes, so that a bomb delays only its like.
"""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from bmq.aio.loops import call_soon_unless_closed
from bmq.broker.admission import Admission, AdmittedBatch
from bmq.broker.opening_room import TURN_NS, TURN_SCRATCH_BYTES, OpeningRoom, TooMuchWork
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX

USUAL_BYTES: Final = 4 * 1024 * 1024
"""The longest body that the first thread decompresses; it keeps the memory."""

Opened = AdmittedBatch | Exception
"""A batch that is admitted, or why it is not: a BmqError with the code for the client, or a failure of ours."""


class Opener(Protocol):
    """Opens batches elsewhere."""

    def open(self, admission: Admission, records: memoryview, now_ms: int, done: Callable[[Opened], None]) -> None:
        """Call `done` from the event loop, later and once. Nobody else changes `records` meanwhile."""

    def close(self) -> None:
        """What waits is not opened any more, and nobody is told."""


class ThreadOpener:
    """The Opener of a server. Its threads begin with the first batch."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._usual = ThreadPoolExecutor(1, "bmq-opener")
        self._long = ThreadPoolExecutor(1, "bmq-opener-long")
        self._scratch: memoryview | None = None

    def open(self, admission: Admission, records: memoryview, now_ms: int, done: Callable[[Opened], None]) -> None:
        self._usual.submit(self._open_usual, admission.for_another_thread(), records, now_ms, done)

    def close(self) -> None:
        for threads in (self._usual, self._long):
            threads.shutdown(wait=False, cancel_futures=True)

    def _open_usual(
        self, admission: Admission, records: memoryview, now_ms: int, done: Callable[[Opened], None]
    ) -> None:
        if self._scratch is None:
            self._scratch = memoryview(bytearray(USUAL_BYTES))
        try:
            opened: Opened = admission.admit(records, now_ms, OpeningRoom(self._scratch))
        except TooMuchWork:
            try:
                self._long.submit(self._open_long, admission, records, now_ms, done)
            except RuntimeError:  # closed meanwhile
                return
            return
        except Exception as error:
            opened = error
        call_soon_unless_closed(self._loop, done, opened)

    def _open_long(
        self, admission: Admission, records: memoryview, now_ms: int, done: Callable[[Opened], None]
    ) -> None:
        call_soon_unless_closed(self._loop, done, admitted_at_length(admission, records, now_ms))


def admitted_at_length(admission: Admission, records: memoryview, now_ms: int) -> Opened:
    """The outcome in as much memory as any batch may take. Pages that are not needed are never touched."""
    scratch = memoryview(mmap.mmap(-1, DECOMPRESSED_BYTES_MAX))
    try:
        return admission.admit(records, now_ms, OpeningRoom(scratch, is_last=True))
    except Exception as error:
        # Frames have views of the memory, which is to be free when we return.
        error.__context__ = error.__cause__ = None
        return error.with_traceback(None)


class TurnRoom:
    """The Room that all partitions of a process share in one turn of the event loop."""

    __slots__ = ("_is_reset_due", "_loop", "is_last", "left_ns", "scratch")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_reset_due = False
        self.scratch = memoryview(bytearray(TURN_SCRATCH_BYTES))
        self.left_ns: int | None = TURN_NS
        self.is_last = False

    def take(self, cost_ns: int) -> None:
        assert self.left_ns is not None
        if not self._is_reset_due:
            self._loop.call_soon(self._reset)
            self._is_reset_due = True
        if cost_ns > self.left_ns:
            raise TooMuchWork
        self.left_ns -= cost_ns

    def _reset(self) -> None:
        self._is_reset_due = False
        self.left_ns = TURN_NS
