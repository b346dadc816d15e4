"""A pytest plugin for runs that somebody watches over (`-p tests.support.running_test`): which test runs just now, and an
end to one that its own time limit cannot end.

Each pytest process, of which xdist starts several, keeps the test's name and until when it may run in a file of its own,
named by its process id, in the directory that BMQ_RUNNING_TESTS names. What is still in these files after all of them were
killed was running then.

pytest-timeout raises in the thread that runs the test, which a C extension may keep for ever, with the interpreter's lock
and all. So faulthandler, which needs neither, waits a little longer, prints the stacks and ends the process. A process that
stands still as a whole, as a stopped one, is left to who watches: `overdue_tests`.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import math
import os
import time
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "BMQ_RUNNING_TESTS"
GRACE_S: Final = 30.0
"""For the test's own limit to end it, with its fixtures."""


@dataclasses.dataclass(frozen=True, slots=True)
class NotedTest:
    name: str
    process_id: int
    deadline_s: float
    """Of the system's monotonic clock; infinity for a test without a limit."""


class RunningTest:
    def __init__(self, file: Path) -> None:
        self._file = file
        # Where the run began to write: later it is what the test captures.
        self._stderr = os.dup(2)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> None:
        self._note(item, time_limit_s(item) or math.inf)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if limit_s := time_limit_s(item):
            faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=self._stderr)

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self, node: pytest.Item | pytest.Collector) -> None:
        """Both limits end with the first failure, for the sake of debuggers; what tears the test down may hang as well."""
        if isinstance(node, pytest.Item) and (limit_s := time_limit_s(node)):
            faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=self._stderr)
            self._note(node, limit_s)

    def pytest_runtest_logfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._file.write_text("")

    def _note(self, item: pytest.Item, limit_s: float) -> None:
        self._file.write_text(f"{time.monotonic() + limit_s + 2 * GRACE_S} {item.nodeid}")


def time_limit_s(item: pytest.Item) -> float:
    """As pytest-timeout takes it: the nearest mark's, else the command line's; 0 for none."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0] if mark else item.config.getoption("timeout", None) or 0)


def pytest_configure(config: pytest.Config) -> None:
    directory = os.environ.get(VARIABLE)
    # The process that hands tests out to xdist's workers hears of each one only when it has ended.
    hands_tests_out = bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")
    if directory and not hands_tests_out:
        config.pluginmanager.register(RunningTest(Path(directory) / str(os.getpid())))


def noted_tests(directory: Path) -> list[NotedTest]:
    """What the processes said last."""
    noted = ((int(file.name), file.read_text()) for file in directory.iterdir())
    parts = ((process_id, text.partition(" ")) for process_id, text in noted if text)
    return [NotedTest(name, process_id, float(deadline)) for process_id, (deadline, _, name) in parts]


def running_tests(directory: Path) -> list[str]:
    """By name; none when what ended was not a test."""
    return sorted(test.name for test in noted_tests(directory))


def overdue_tests(directory: Path, now_s: float) -> list[NotedTest]:
    """Those that neither their own limit nor faulthandler has ended; `now_s` of the system's monotonic clock."""
    return [test for test in noted_tests(directory) if test.deadline_s < now_s]
