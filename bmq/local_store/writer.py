"""The sole writer of one file of the embedded store: appends, group commit, and recovery after a failed append.

Small appends are written at once on the event loop (a copy into the page cache, about 5 us for 16 KiB, less than waking
a thread costs). Large ones go to a thread, and so does everything while the kernel makes writers wait (dirty pages,
journal commits): the first slow write sends the next quarter of a second there. The order is kept either way.
"""

from __future__ import annotations

import asyncio
import errno
import os
from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from stat import S_IRGRP, S_IROTH, S_IRUSR
from time import perf_counter
from typing import Any, Final, NamedTuple

from bmq.aio.loops import call_soon_unless_closed
from bmq.log.store import (
    Buffer,
    CorruptFile,
    Durability,
    FencedWriter,
    FileMissing,
    StorageFull,
    StorageUnavailable,
    StoreError,
    WriterBroken,
)

Writev = Callable[[int, Sequence[Buffer]], int]
Sync = Callable[[int], None]

INLINE_BYTES_MAX: Final = 256 * 1024
SLOW_WRITE_S: Final = 0.02
SLOW_PERIOD_S: Final = 0.25
BUFFERS_PER_WRITE_MAX: Final = 1024  # IOV_MAX
CLOSED_MODE: Final = S_IRUSR | S_IRGRP | S_IROTH
_FULL_ERRNOS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_MISSING_ERRNOS: Final = frozenset({errno.ENOENT, errno.ENOTDIR})


class WriteStats:
    """Plain counters of one store; seconds and bytes since it was opened."""

    __slots__ = ("append_bytes", "appends", "slow_writes", "sync_seconds", "syncs", "threaded_writes", "write_seconds")

    def __init__(self) -> None:
        self.appends = 0
        self.append_bytes = 0
        self.write_seconds = 0.0
        self.threaded_writes = 0
        self.slow_writes = 0
        self.syncs = 0
        self.sync_seconds = 0.0


def store_error(error: OSError, path: str) -> StoreError:
    """The store error for an operating system's error."""
    if error.errno in _MISSING_ERRNOS:
        return FileMissing(path)
    if error.errno in _FULL_ERRNOS:
        return StorageFull(f"no space for {path}: {error.strerror}")
    return StorageUnavailable(f"{path}: {error.strerror}")


class WriteCalls(NamedTuple):
    """How the writers of one store call the operating system, and the counters of these calls."""

    threads: Executor
    sync_threads: Executor
    writev: Writev
    sync: Sync
    stats: WriteStats


class LocalWriter:
    """Implements bmq.log.store.SegmentWriter."""

    __slots__ = (
        "__weakref__",
        "_accepted_bytes",
        "_descriptor",
        "_durable_bytes",
        "_failure",
        "_file",
        "_idle_waiters",
        "_is_synced_each_time",
        "_is_syncing",
        "_is_writing",
        "_loop",
        "_on_end",
        "_queue",
        "_slow_until_s",
        "_stats",
        "_sync",
        "_sync_threads",
        "_threads",
        "_unsynced",
        "_writev",
        "_written_bytes",
        "file_id",
        "path",
    )

    def __init__(
        self,
        path: str,
        file_id: int,
        file: Path,
        descriptor: int,
        durability: Durability,
        calls: WriteCalls,
        on_end: Callable[[LocalWriter], None],
    ) -> None:
        """`file` is the path at creation; `on_end` is called once, when the descriptor is given up."""
        self.path = path
        self.file_id = file_id
        self._file = file
        self._descriptor = descriptor
        self._is_synced_each_time = durability is Durability.HSYNC
        self._loop = asyncio.get_running_loop()
        self._threads = calls.threads
        self._sync_threads = calls.sync_threads
        self._writev = calls.writev
        self._sync = calls.sync
        self._stats = calls.stats
        self._on_end = on_end
        self._accepted_bytes = 0
        self._written_bytes = 0
        self._durable_bytes = 0
        self._failure: StoreError | None = None
        self._queue: deque[tuple[Sequence[Buffer], int, Future[int]]] = deque()
        self._unsynced: deque[tuple[int, Future[int]]] = deque()
        self._is_writing = False
        self._is_syncing = False
        self._slow_until_s = 0.0
        self._idle_waiters: list[Future[None]] = []

    @property
    def replicas(self) -> int:
        return 1

    @property
    def accepted_bytes(self) -> int:
        return self._accepted_bytes

    @property
    def is_broken(self) -> bool:
        return self._failure is not None

    def append(self, buffers: Sequence[Buffer]) -> Future[int]:
        answer: Future[int] = self._loop.create_future()
        if self._failure is not None:
            _refuse(answer, self._failure)
            return answer
        length_bytes = 0
        for buffer in buffers:
            length_bytes += len(buffer)
        self._accepted_bytes += length_bytes
        stats = self._stats
        stats.appends += 1
        stats.append_bytes += length_bytes
        start_s = perf_counter()
        if self._is_writing or length_bytes > INLINE_BYTES_MAX or start_s < self._slow_until_s:
            self._queue.append((buffers, length_bytes, answer))
            if not self._is_writing:
                self._write_queue()
            return answer
        try:
            written_bytes = self._writev(self._descriptor, buffers) if len(buffers) <= BUFFERS_PER_WRITE_MAX else 0
            if written_bytes != length_bytes:
                _write_rest(self._writev, self._descriptor, buffers, written_bytes)
        except OSError as error:
            _refuse(answer, self._fail_with(error))
            return answer
        elapsed_s = perf_counter() - start_s
        stats.write_seconds += elapsed_s
        if elapsed_s > SLOW_WRITE_S:
            stats.slow_writes += 1
            self._slow_until_s = start_s + elapsed_s + SLOW_PERIOD_S
        self._written_bytes += length_bytes
        if self._is_synced_each_time:
            self._unsynced.append((self._written_bytes, answer))
            self._start_sync()
        else:
            self._durable_bytes = self._written_bytes
            answer.set_result(self._written_bytes)
        return answer

    async def prove_ownership(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._check_in_place()

    async def mend(self) -> int:
        """Cuts off the bytes of failed appends behind the last acknowledged byte, syncs, and closes."""
        self.fail(WriterBroken(f"{self.path} is being mended"))
        await self._idle()
        self._raise_if_fenced()
        if self._descriptor >= 0:
            try:
                self._check_in_place()
                await self._in_thread(self._cut)
                self._raise_if_fenced()
                self._check_in_place()
            except FencedWriter:
                self.abandon()
                raise
            except OSError as error:
                raise StorageUnavailable(f"{self.path} cannot be closed: {error.strerror}") from error
            self._end()
        else:
            self._check_in_place()
        return self._durable_bytes

    async def close(self) -> int:
        while self._failure is None and (self._is_writing or self._is_syncing):
            await self._idle()
        if self._failure is not None:
            raise self._failure
        self._failure = WriterBroken(f"{self.path} is closed")
        try:
            length_bytes = await self._in_thread(self._seal)
        except OSError as error:
            self._raise_if_fenced()
            raise self._broken(error) from error
        self._raise_if_fenced()
        self._end()
        if length_bytes != self._written_bytes:
            raise CorruptFile(f"{self.path} has {length_bytes} bytes, {self._written_bytes} were written")
        return length_bytes

    def abandon(self) -> None:
        self.fail(FencedWriter(f"{self.path} was abandoned"))
        if not (self._is_writing or self._is_syncing):
            self._end()

    # --- for the store

    def fail(self, failure: StoreError) -> None:
        """Fail all unacknowledged and all later appends. Fencing outweighs an earlier failure."""
        if self._failure is None or (isinstance(failure, FencedWriter) and not isinstance(self._failure, FencedWriter)):
            self._failure = failure
        queue, self._queue = self._queue, deque()
        unsynced, self._unsynced = self._unsynced, deque()
        for _, answer in unsynced:
            _refuse(answer, self._failure)
        for _, _, answer in queue:
            _refuse(answer, self._failure)

    def is_deleted(self) -> bool:
        """No directory names the file any more."""
        return self._descriptor >= 0 and os.fstat(self._descriptor).st_nlink == 0

    async def fence(self) -> None:
        """A newer owner takes the file: returns when this handle can no longer write to it."""
        self.fail(FencedWriter(f"{self.path} was taken over"))
        await self._idle()
        self._end()

    # --- writing in a thread

    def _write_queue(self) -> None:
        self._is_writing = True
        jobs, self._queue = self._queue, deque()
        self._stats.threaded_writes += 1
        self._threads.submit(self._write_job, jobs)

    def _write_job(self, jobs: deque[tuple[Sequence[Buffer], int, Future[int]]]) -> None:
        """In a thread: write everything that was waiting, in order."""
        failure: OSError | None = None
        done_count = 0
        start_s = perf_counter()
        try:
            for buffers, _, _ in jobs:
                _write_rest(self._writev, self._descriptor, buffers, 0)
                done_count += 1
        except OSError as error:
            failure = error
        elapsed_s = perf_counter() - start_s
        self._call_loop(partial(self._written, jobs, done_count, failure, elapsed_s))

    def _written(
        self,
        jobs: deque[tuple[Sequence[Buffer], int, Future[int]]],
        done_count: int,
        failure: OSError | None,
        elapsed_s: float,
    ) -> None:
        self._is_writing = False
        self._stats.write_seconds += elapsed_s
        for index, (_, length_bytes, answer) in enumerate(jobs):
            if self._failure is not None:
                _refuse(answer, self._failure)
            elif index >= done_count:
                assert failure is not None
                _refuse(answer, self._fail_with(failure))
            else:
                self._written_bytes += length_bytes
                if self._is_synced_each_time:
                    self._unsynced.append((self._written_bytes, answer))
                else:
                    self._durable_bytes = self._written_bytes
                    if not answer.done():
                        answer.set_result(self._written_bytes)
        if self._failure is None and self._queue:
            self._write_queue()
        self._start_sync()
        self._wake_idle()

    # --- group commit

    def _start_sync(self) -> None:
        if self._unsynced and not self._is_syncing and self._failure is None:
            self._is_syncing = True
            self._sync_threads.submit(self._sync_job, self._written_bytes)

    def _sync_job(self, covered_bytes: int) -> None:
        failure: OSError | None = None
        start_s = perf_counter()
        try:
            self._sync(self._descriptor)
        except OSError as error:
            failure = error
        self._call_loop(partial(self._synced, covered_bytes, failure, perf_counter() - start_s))

    def _synced(self, covered_bytes: int, failure: OSError | None, elapsed_s: float) -> None:
        self._is_syncing = False
        self._stats.syncs += 1
        self._stats.sync_seconds += elapsed_s
        if failure is not None and self._failure is None:
            # After a failed sync we cannot know which pages reached the disk, and a second sync may report success.
            self._fail_with(failure)
        if self._failure is None:
            self._durable_bytes = covered_bytes
            while self._unsynced and self._unsynced[0][0] <= covered_bytes:
                position, answer = self._unsynced.popleft()
                if not answer.done():
                    answer.set_result(position)
            self._start_sync()
        self._wake_idle()

    # --- ends

    def _fail_with(self, error: OSError) -> StoreError:
        failure = self._broken(error)
        self.fail(failure)
        return failure

    def _broken(self, error: OSError) -> StoreError:
        known = store_error(error, self.path)
        failure = known if isinstance(known, StorageFull) else WriterBroken(f"{self.path}: {error.strerror}")
        if not isinstance(self._failure, FencedWriter):
            self._failure = failure
        return failure

    async def _in_thread(self, work: Callable[[], int]) -> int:
        """The last work on the file; a concurrent `fence` waits for it."""
        self._is_syncing = True
        try:
            return await self._loop.run_in_executor(self._sync_threads, work)
        finally:
            self._is_syncing = False
            self._wake_idle()

    def _raise_if_fenced(self) -> None:
        if isinstance(self._failure, FencedWriter):
            raise self._failure

    def _cut(self) -> int:
        os.ftruncate(self._descriptor, self._durable_bytes)
        self._sync(self._descriptor)
        os.fchmod(self._descriptor, CLOSED_MODE)
        return self._durable_bytes

    def _seal(self) -> int:
        self._sync(self._descriptor)
        length_bytes = os.fstat(self._descriptor).st_size
        os.fchmod(self._descriptor, CLOSED_MODE)
        return length_bytes

    def _check_in_place(self) -> None:
        """A look at our directory (rule 7). It cannot block for long: the path was resolved when the file was made."""
        try:
            found = self._file.stat()
            own = os.fstat(self._descriptor) if self._descriptor >= 0 else found
        except OSError as error:
            raise FencedWriter(f"{self.path} is gone: {error.strerror}") from error
        if (found.st_ino, found.st_dev) != (own.st_ino, own.st_dev):
            raise FencedWriter(f"{self.path} names another file now")

    async def _idle(self) -> None:
        """Wait until no thread works on this file."""
        while self._is_writing or self._is_syncing:
            waiter: Future[None] = self._loop.create_future()
            self._idle_waiters.append(waiter)
            await waiter

    def _wake_idle(self) -> None:
        if self._is_writing or self._is_syncing:
            return
        waiters, self._idle_waiters = self._idle_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        if isinstance(self._failure, FencedWriter):
            self._end()

    def _end(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._on_end(self)

    def _call_loop(self, callback: Callable[[], Any]) -> None:
        call_soon_unless_closed(self._loop, callback)


def _refuse(answer: Future[int], failure: StoreError) -> None:
    if not answer.done():
        answer.set_exception(failure)
        answer.exception()  # marks it as retrieved, so that asyncio does not log it if the caller is gone


def _write_rest(writev: Writev, descriptor: int, buffers: Sequence[Buffer], skip_bytes: int) -> None:
    """Write everything behind the first `skip_bytes`, however short the kernel cuts each write."""
    rest: deque[memoryview] = deque()
    for buffer in buffers:
        view = memoryview(buffer)
        if skip_bytes >= len(view):
            skip_bytes -= len(view)
            continue
        rest.append(view[skip_bytes:])
        skip_bytes = 0
    while rest:
        group = [rest[index] for index in range(min(len(rest), BUFFERS_PER_WRITE_MAX))]
        written_bytes = writev(descriptor, group)
        while rest and written_bytes >= len(rest[0]):
            written_bytes -= len(rest.popleft())
        if rest and written_bytes:
            rest[0] = rest[0][written_bytes:]
