"""Redrives of dead letters as tasks: begun, followed and cancelled. They run where the active controller is.

So there is one for a group at a time. When the controller moves, they end with one sentence; the same order, given again,
goes on where they were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

import structlog

from bmq.admin.orders import OrderRefused
from bmq.admin.tasks import Task, TaskBook
from bmq.log.clock import Clock
from bmq.protocol.errors import BmqError
from bmq.proxy.dead_letters.redrive import RedriveCounts, RedriveOrder, Redriver, RedriveRefused

CANCELLED: Final = "cancelled; the same order goes on from there"
MOVED: Final = "the controller moved; the same order goes on from there"
KIND: Final = "redrive"

_log = structlog.get_logger("bmq.admin")


class _NotHere(BmqError):
    """The active controller is in another process now."""


class Redrives:
    """`is_active()`: whether the active controller is in this process."""

    def __init__(self, redriver: Redriver, clock: Clock, rng: Random, is_active: Callable[[], bool]) -> None:
        self._redriver = redriver
        self._is_active = is_active
        self._running: dict[str, tuple[Task, asyncio.Task[None]]] = {}
        self.tasks = TaskBook(clock, rng)

    @property
    def is_active(self) -> bool:
        return self._is_active()

    def begin(self, order: RedriveOrder) -> Task:
        """Raises OrderRefused with a sentence, TooBusy."""
        if not order.is_dry_run and (other := self._running.get(order.group_id)) is not None:
            raise OrderRefused(f"redrive {other[0].task_id} of group {order.group_id} has to end first")
        try:
            letters = self._redriver.letters_topic(order)
        except RedriveRefused as error:
            raise OrderRefused(str(error)) from error
        task = self.tasks.open(KIND, order.group_id)
        where = "the topics of the records" if order.to is None else f"topic {order.to}"
        self.tasks.step(task, f"From topic {letters.name} to {where}{', counted only' if order.is_dry_run else ''}.")
        work = asyncio.get_running_loop().create_task(self._run(task, order))
        key = task.task_id if order.is_dry_run else order.group_id
        self._running[key] = (task, work)
        work.add_done_callback(lambda _: self._running.pop(key, None) and None)
        _log.info("redrive_begun", task=task.task_id, group=order.group_id, letters=letters.name, to=order.to)
        return task

    def cancel(self, task_id: str) -> Task:
        """End it after the append that is under way; of one that has ended nothing changes. Raises UnknownTask."""
        task = self.tasks.get(task_id)
        self._end(task, CANCELLED)
        return task

    async def close(self) -> None:
        """End all, and wait until nothing runs."""
        works = [work for _, work in self._running.values()]
        for task, _ in tuple(self._running.values()):
            self._end(task, MOVED)
        if works:
            await asyncio.wait(works)

    def _end(self, task: Task, why: str) -> None:
        for other, work in tuple(self._running.values()):
            if other is task:
                self.tasks.end(task, why)
                work.cancel()

    async def _run(self, task: Task, order: RedriveOrder) -> None:
        def step_done(counts: RedriveCounts) -> None:
            if not self._is_active():
                raise _NotHere(MOVED)
            self.tasks.advance(task, min(counts.share_done, 0.99))
            self.tasks.step(task, counts.text(is_dry_run=order.is_dry_run))

        try:
            await self._redriver.run(order, step_done)
            self.tasks.end(task)
        except asyncio.CancelledError:
            self.tasks.end(task, CANCELLED)
            raise
        except BmqError as error:
            _log.warning("redrive_ended", task=task.task_id, group=order.group_id, reason=str(error))
            self.tasks.end(task, str(error))
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            _log.exception("redrive_failed", task=task.task_id)
            self.tasks.end(task, f"a fault of ours: {error!r}; the log of this node has more")
