"""Tasks: orders that take a while, with their steps, progress and end. The newest are kept."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import field
from enum import StrEnum
from random import Random
from typing import Final

from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.protocol.errors import BmqError

TASKS_MAX: Final = 1_000
RUNNING_MAX: Final = 16
STEPS_MAX: Final = 200
FOLLOWERS_MAX: Final = 64


class UnknownTask(BmqError):
    """A task id that was not given out here, or was forgotten since."""


class TooBusy(BmqError):
    """Too many tasks are running, or too many requests follow one task."""


class TaskState(StrEnum):
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Step:
    """One sentence about a step done or waited for. `number` counts a task's steps from 0, forgotten ones too."""

    number: int
    at_ms: int
    text: str


@dataclass(slots=True, eq=False)
class Task:
    """`progress` goes from 0 to 1 and never back. `version` goes up with every change. `error`: why it failed."""

    task_id: str
    kind: str
    subject: str
    started_at_ms: int
    state: TaskState = TaskState.RUNNING
    progress: float = 0.0
    steps: deque[Step] = field(default_factory=lambda: deque(maxlen=STEPS_MAX))
    ended_at_ms: int | None = None
    error: str | None = None
    version: int = 0
    followers: set[asyncio.Future[None]] = field(default_factory=set)

    @property
    def is_running(self) -> bool:
        return self.state is TaskState.RUNNING


class TaskBook:
    """All tasks of this process, oldest first. A running one is never forgotten."""

    def __init__(self, clock: Clock, rng: Random) -> None:
        self._clock = clock
        self._rng = rng
        self._tasks: dict[str, Task] = {}

    def open(self, kind: str, subject: str) -> Task:
        """Raises TooBusy."""
        running = self.running()
        if len(running) >= RUNNING_MAX:
            raise TooBusy(f"{len(running)} tasks are running, and no more may; wait for one of them to end")
        while len(self._tasks) >= TASKS_MAX:
            del self._tasks[next(task_id for task_id, task in self._tasks.items() if not task.is_running)]
        task = Task(f"{self._rng.getrandbits(64):016x}", kind, subject, self._clock.now_ms())
        self._tasks[task.task_id] = task
        return task

    def get(self, task_id: str) -> Task:
        """Raises UnknownTask."""
        task = self._tasks.get(task_id)
        if task is None:
            raise UnknownTask(f"there is no task {task_id} here; the last {TASKS_MAX} of each controller are kept")
        return task

    def adopt(self, task: Task) -> None:
        """Take a task that another controller opened."""
        self._tasks[task.task_id] = task

    def forget(self, task: Task) -> None:
        """Another controller has the task: its followers have to ask that one."""
        self._tasks.pop(task.task_id, None)
        self._wake(task)

    def forget_all(self) -> None:
        for task in tuple(self._tasks.values()):
            self.forget(task)

    def has(self, task_id: str) -> bool:
        return task_id in self._tasks

    def running(self) -> Sequence[Task]:
        return [task for task in self._tasks.values() if task.is_running]

    def newest(self, limit: int) -> Sequence[Task]:
        """Newest first."""
        return list(reversed(self._tasks.values()))[:limit]

    # --- for the worker

    def step(self, task: Task, text: str) -> None:
        number = task.steps[-1].number + 1 if task.steps else 0
        task.steps.append(Step(number, self._clock.now_ms(), text))
        self._changed(task)

    def advance(self, task: Task, progress: float) -> None:
        """Raise the progress; does nothing if it is not higher than before."""
        if task.progress < progress <= 1.0:
            task.progress = progress
            self._changed(task)

    def end(self, task: Task, error: str | None = None) -> None:
        """End the task; does nothing if it has ended."""
        if not task.is_running:
            return
        task.ended_at_ms = self._clock.now_ms()
        task.error = error
        task.state = TaskState.SUCCEEDED if error is None else TaskState.FAILED
        if error is None:
            task.progress = 1.0
        self._changed(task)

    # --- for followers

    async def changed(self, task: Task, after_version: int, wait_s: float) -> None:
        """Return once the task's version is past `after_version`, it has ended, or `wait_s` are over. Raises TooBusy."""
        if task.version > after_version or not task.is_running or wait_s <= 0:
            return
        if len(task.followers) >= FOLLOWERS_MAX:
            raise TooBusy(f"{FOLLOWERS_MAX} requests wait for news of task {task.task_id}, and no more may")
        follower: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        task.followers.add(follower)
        try:
            await asyncio.wait((follower,), timeout=wait_s)
        finally:
            task.followers.discard(follower)

    def _changed(self, task: Task) -> None:
        task.version += 1
        self._wake(task)

    @staticmethod
    def _wake(task: Task) -> None:
        followers, task.followers = task.followers, set()
        for follower in followers:
            if not follower.done():
                follower.set_result(None)
