"""A pytest plugin for runs that somebody watches over (`-p tests.support.running_test`): which test runs just now, and an
end to one that its own time limit cannot end.

Each pytest process, of which xdist starts several, keeps the test's name in a file of its own in the directory that
BMQ_RUNNING_TESTS names. What is still in these files after all of them were killed was running then.

pytest-timeout raises in the thread that runs the test, which a C extension may keep for ever, with the interpreter's lock
and all. So faulthandler, which needs neither, waits a little longer, prints the stacks and ends the process.
"""

from __future__ import annotations

import faulthandler
import os
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "BMQ_RUNNING_TESTS"
GRACE_S: Final = 30.0
"""For the test's own limit to end it, with its fixtures."""


class RunningTest:
    def __init__(self, file: Path) -> None:
        self._file = file
        # Where the run began to write: later it is what the test captures.
        self._stderr = os.dup(2)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._file.write_text(nodeid)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if limit_s := time_limit_s(item):
            faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=self._stderr)

    def pytest_runtest_logfinish(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        self._file.write_text("")


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


def running_tests(directory: Path) -> list[str]:
    """By name; none when what ended was not a test."""
    return sorted(name for file in directory.iterdir() if (name := file.read_text()))
