"""Deletes files no manifest names any more, after a delay: readers may still use older manifests.

A few at a time and so many a second: what retention drops at once may be thousands of files, and others use the store.

Pending deletions are lost when the process ends. The partition's next start deletes whole directories nobody names.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

import structlog

from bmq.log.store import SegmentStore, StoreError

_log = structlog.get_logger("bmq.broker")


class DeferredDeletes:
    """`deletions_max`: deletions under way at once; `deletions_per_s`: how many may begin in a second."""

    def __init__(self, store: SegmentStore, deletions_max: int, deletions_per_s: float) -> None:
        self.deleted = 0
        self._store = store
        self._deletions_max = deletions_max
        self._pause_s = 1 / deletions_per_s
        self._next_s = 0.0  # the loop's time at which the next deletion may begin
        self._pause: asyncio.TimerHandle | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._due: deque[str] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def put(self, paths: Iterable[str], delay_s: float) -> None:
        """Delete these files or directories once `delay_s` seconds are over."""
        held = tuple(paths)
        if not held or self._is_closed:
            return

        def fall_due() -> None:
            self._timers.discard(timer)
            self._due.extend(held)
            self._work()

        timer = asyncio.get_running_loop().call_later(delay_s, fall_due)
        self._timers.add(timer)

    def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._due and self._pause is None and len(self._workers) < self._deletions_max:
            now_s = loop.time()
            if now_s < self._next_s:
                self._pause = loop.call_at(self._next_s, self._go_on)
                return
            self._next_s = now_s + self._pause_s
            task = loop.create_task(self._delete(self._due.popleft()))
            self._workers.add(task)
            task.add_done_callback(self._finished)

    def _go_on(self) -> None:
        self._pause = None
        self._next_s = 0.0  # the timer may come a little early
        self._work()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        if not self._is_closed:
            self._work()

    async def _delete(self, path: str) -> None:
        try:
            was_there = await self._store.delete(path, recursive=True)
        except StoreError as error:
            _log.info("not_deleted", path=path, reason=str(error))
        else:
            self.deleted += was_there

    async def close(self) -> None:
        """Forget deletions that are not due, and wait for those under way."""
        self._is_closed = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._pause is not None:
            self._pause.cancel()
        self._due.clear()
        if self._workers:
            await asyncio.wait(self._workers)
