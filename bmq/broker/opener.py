"""Opens batches that take longer than a turn of the event loop has: in one thread, part by part, short ones first.

A partition has at most one batch here at a time, so the queues are bounded by the number of partitions. Each batch first gets
a little work; one that takes more goes behind all those that may be short, and between two of its parts they have their turn.
Of each request one batch is opened at a time, to its end: its answer waits for all of them, and a request of many bombs then has
some of them taken before the others wait too long. Among equals requests take turns. So bombs, however many partitions they
are for, delay usual batches of other requests by a few parts. Of each stage at most one batch is half opened, which bounds the
memory.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple, Protocol

from bmq.aio.loops import call_soon_unless_closed
from bmq.broker.batch_validation import BatchValidator, ValidBatch
from bmq.broker.opening_room import TURN_NS, TURN_SCRATCH_BYTES, OpeningBudget, TooMuchWork
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

STAGE_BYTES: Final = (2 * 1024 * 1024, 16 * 1024 * 1024, 2 * DECOMPRESSED_BYTES_MAX)
"""The work that a batch may take (OpeningBudget) before it starts anew in the next stage. What passes the last is refused."""
WAIT_MAX_S: Final = 20.0
"""Batches that wait longer are refused unopened: clients give a request up after 30 s (`request.timeout.ms`), and are to learn
before which of its batches were taken."""

Opened = ValidBatch | Exception
"""A batch that is valid, whose header is still to be written into it (`write_times`), or why it is not: a BmqError with the
code for the client, or a failure of ours."""


class Opener(Protocol):
    """Opens batches elsewhere."""

    def open(self, validator: BatchValidator, records: memoryview, now_ms: int, done: Callable[[Opened], None]) -> None:
        """Call `done` from the event loop, later and once. `records` are only read."""

    def close(self) -> None:
        """Batches that wait are not opened any more, and `done` is not called for them."""


class _Job(NamedTuple):
    validator: BatchValidator
    records: memoryview
    now_ms: int
    done: Callable[[Opened], None]
    ends_s: float


class _Request:
    """The batches of one request that wait."""

    __slots__ = ("jobs",)

    def __init__(self) -> None:
        self.jobs: deque[_Job] = deque()


class _Waiting:
    """Batches that wait, by their requests. For two threads.

    A request has one batch opened at a time, and requests of a stage take turns: a batch waits for one of each other request,
    not for all. Batches of one request are views of its buffer, which tells them apart from others'.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[int, _Request] = {}
        self._stages: tuple[OrderedDict[int, _Request], ...] = tuple(OrderedDict() for _ in STAGE_BYTES)

    def add(self, job: _Job) -> None:
        key = id(job.records.obj)
        with self._lock:
            request = self._requests.get(key)
            if request is None:
                request = self._requests[key] = self._stages[0][key] = _Request()
            request.jobs.append(job)

    def next(self, stage: int) -> _Job | None:
        """Take one out. Its request has no other one opened until `begin_anew` or `end`."""
        with self._lock:
            if not self._stages[stage]:
                return None
            _, request = self._stages[stage].popitem(last=False)
            return request.jobs.popleft()

    def begin_anew(self, job: _Job, stage: int) -> None:
        """It takes more work than its stage has."""
        with self._lock:
            self._requests[id(job.records.obj)].jobs.appendleft(job)
            self._queue(id(job.records.obj), stage)

    def end(self, job: _Job, stage: int) -> None:
        """It is opened, with the work of this stage; its request's next one will likely take as much."""
        with self._lock:
            self._queue(id(job.records.obj), stage)

    def _queue(self, key: int, stage: int) -> None:
        request = self._requests[key]
        if request.jobs:
            self._stages[stage][key] = request
        else:
            del self._requests[key]


class ThreadOpener:
    """The Opener of a server. Its thread begins with the first batch. `clock_s`: the loop's, unless it says otherwise."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock_s: Callable[[], float] | None = None) -> None:
        self._loop = loop
        self._clock_s = clock_s or loop.time
        self._thread = ThreadPoolExecutor(1, "bmq-opener")
        self._waiting = _Waiting()
        self._is_closed = False

    def open(self, validator: BatchValidator, records: memoryview, now_ms: int, done: Callable[[Opened], None]) -> None:
        ends_s = self._clock_s() + WAIT_MAX_S
        self._waiting.add(_Job(validator, records, now_ms, done, ends_s))
        self._thread.submit(self._open_next)

    def close(self) -> None:
        self._is_closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _open_next(self) -> None:
        """Open the next batch to its end. It may be gone: others' pauses are used too."""
        for stage in range(len(STAGE_BYTES)):
            job = self._waiting.next(stage)
            if job is not None:
                self._open(job, stage)
                return

    def _open(self, job: _Job, stage: int) -> None:
        budget = OpeningBudget(STAGE_BYTES[stage])
        try:
            opened: Opened = self._opened(job, stage, budget)
        except TooMuchWork:
            self._waiting.begin_anew(job, stage + 1)
            self._thread.submit(self._open_next)
            return
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            # Frames have views of the memory, which is to be free when we return.
            error.__context__ = error.__cause__ = None
            opened = error.with_traceback(None)
        self._waiting.end(job, _stage_for(STAGE_BYTES[stage] - budget.left_bytes))
        if not self._is_closed:
            call_soon_unless_closed(self._loop, job.done, opened)

    def _opened(self, job: _Job, stage: int, budget: OpeningBudget) -> ValidBatch:
        is_last = stage == len(STAGE_BYTES) - 1
        # Made here, so that what waits holds no memory of checks.
        validator = job.validator.for_another_thread()
        opening = validator.opening(job.records, job.now_ms, budget, is_last=is_last)
        while True:
            if self._clock_s() > job.ends_s or self._is_closed:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the batch waited too long to be decompressed")
            try:
                next(opening)
            except StopIteration as end:
                valid: ValidBatch = end.value
                return valid
            self._open_shorter_ones(stage)

    def _open_shorter_ones(self, stage: int) -> None:
        for shorter in range(stage):
            while (job := self._waiting.next(shorter)) is not None:
                self._open(job, shorter)


def _stage_for(work_bytes: int) -> int:
    """The first stage that has room for so much, or the last one."""
    return sum(work_bytes > size for size in STAGE_BYTES[:-1])


def validated_at_once(validator: BatchValidator, records: memoryview, now_ms: int) -> Opened:
    """Validate a batch in one go, with the largest budget that any batch may have."""
    opening = validator.opening(records, now_ms, OpeningBudget(STAGE_BYTES[-1]))
    try:
        while True:
            next(opening)
    except StopIteration as end:
        valid: ValidBatch = end.value
        return valid
    except Exception as error:  # noqa: BLE001 any bug is answered or logged
        return error


class TurnRoom:
    """The Room that all partitions of a process share in one turn of the event loop."""

    __slots__ = ("_is_reset_due", "_loop", "left_ns", "scratch")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_reset_due = False
        self.scratch = memoryview(bytearray(TURN_SCRATCH_BYTES))
        self.left_ns: int | None = TURN_NS

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
