"""Samples the memory of a Spark's processes while it works."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Final, Self

import psutil

from bench.measure import memory_mib

LOOK_EVERY_S: Final = 0.05
PLANNERS: Final = "pyspark.sql.worker."
"""In the command lines of processes that plan on the driver; an executor has none."""
MISSED: Final = (psutil.Error, OSError, ValueError, KeyError)
"""Errors from sampling a process that has just ended."""


class MemoryWatch:
    """A context manager: the maxima seen meanwhile for the processes below `pid` (the driver's).

    An executor's Python processes are its daemon, which forks workers, and one worker per running task. Shared memory
    counts once (PSS). Planning processes are counted separately: here driver and executor are one process, but they are
    the driver's.
    """

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)
        self._most = dict.fromkeys(("python_pss_mib", "worker_pss_mib", "planners_pss_mib", "jvm_pss_mib"), 0.0)
        self._processes_most = 0
        self._looks = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()

    @property
    def most(self) -> dict[str, Any]:
        """`python_pss_mib`: all Python processes of the executor; `worker_pss_mib`: one of them; `planners_pss_mib`:
        the driver's; `jvm_pss_mib`.
        """
        found = {name: round(value, 1) for name, value in self._most.items()}
        return {**found, "python_processes": self._processes_most, "looks": self._looks}

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            try:
                processes = self._root.children(recursive=True)
            except psutil.Error:
                return
            python, planners, jvm = [], 0.0, 0.0
            for process in processes:
                try:
                    name, command, pss_mib = process.name(), process.cmdline(), memory_mib(process.pid)["pss_mib"]
                except MISSED:
                    continue
                if name == "java":
                    jvm += pss_mib
                elif any(argument.startswith(PLANNERS) for argument in command):
                    planners += pss_mib
                else:
                    python.append(pss_mib)
            self._looks += 1
            self._processes_most = max(self._processes_most, len(python))
            self._note("python_pss_mib", sum(python))
            self._note("worker_pss_mib", max(python, default=0.0))
            self._note("planners_pss_mib", planners)
            self._note("jvm_pss_mib", jvm)

    def _note(self, name: str, value: float) -> None:
        self._most[name] = max(self._most[name], value)
