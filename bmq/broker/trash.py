"""Deletes files no manifest names any more, a few at a time and after a delay: readers may still use older manifests.

Pending deletions are lost when the process ends. The partition's next start deletes whole directories nobody names.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

import structlog

from bmq.log.store import SegmentStore, StoreError

_log = structlog.get_logger("bmq.broker")


class Trash:
    """`deletions_max`: deletions under way at once."""

    def __init__(self, store: SegmentStore, deletions_max: int) -> None:
        self.deleted = 0
        self._store = store
        self._deletions_max = deletions_max
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
        while self._due and len(self._workers) < self._deletions_max:
            task = asyncio.get_running_loop().create_task(self._delete(self._due.popleft()))
            self._workers.add(task)
            task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._workers.discard(task)
        if not self._is_closed:
            self._work()

    async def _delete(self, path: str) -> None:
        try:
            self.deleted += await self._store.delete(path, recursive=True)
        except StoreError as error:
            _log.info("not_deleted", path=path, reason=str(error))

    async def close(self) -> None:
        """Forget deletions that are not due, and wait for those under way."""
        self._is_closed = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._due.clear()
        if self._workers:
            await asyncio.wait(self._workers)
