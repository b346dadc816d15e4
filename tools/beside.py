"""Stages that compute, run one after the other beside those that wait.

Tests of servers use about half of two processors: they wait for timers, sessions and starts. What only computes uses the
rest, at a lower priority, so that the servers under test hardly notice it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from tools.stages import Stage

NICE: Final = 5
"""A process at 0 gets three times the time of one at 5. Lower, tests of this lane would meet their own time limits."""
SHARE: Final = 0.25
"""Of the processors, the least that this lane has: what one process at its priority has beside one at 0 that never waits."""


def lowered(command: Sequence[str]) -> list[str]:
    """The command at the lane's priority among the processes of its session."""
    return ["nice", "-n", f"{NICE}", *command]


def lower_session(process_id: int, proc: Path = Path("/proc")) -> None:
    """The same for the whole session of this process among other sessions, where the system groups processes by session."""
    with contextlib.suppress(OSError):
        (proc / f"{process_id}" / "autogroup").write_text(f"{NICE}")


class Beside:
    """A context: the stages run inside it, and its end waits for them. Left by an error, it kills the one that runs.

    `run_one`: runs one, and calls `holding` with its process.
    """

    def __init__(self, stages: Sequence[Stage], run_one: Callable[[Stage, Beside], None]) -> None:
        self._stages = stages
        self._run_one = run_one
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_ended = False
        self._thread = ThreadPoolExecutor(1, "beside")
        self._done: Future[None] | None = None

    def __enter__(self) -> Self:
        self._done = self._thread.submit(self._run)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._done is not None
        try:
            if error is None:
                self._done.result()
        finally:
            # Nothing is left to be ended, unless an error or a signal ended the wait.
            self._end()
            self._thread.shutdown()

    @contextlib.contextmanager
    def holding(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """While inside, the process, which leads its session, is what the lane runs."""
        lower_session(process.pid)
        with self._lock:
            self._process = process
            if self._is_ended:
                self._kill()
        try:
            yield
        finally:
            with self._lock:
                self._process = None

    def _run(self) -> None:
        for stage in self._stages:
            if self._is_ended:
                return
            self._run_one(stage, self)

    def _end(self) -> None:
        with self._lock:
            self._is_ended = True
            self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
