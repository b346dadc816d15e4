"""A pytest plugin: which test runs just now, for whoever has to end the run (`-p tests.support.running_test`).

Each pytest process, of which xdist starts several, keeps the test's name in a file of its own in the directory that
BMQ_RUNNING_TESTS names. What is still in these files after all of them were killed was running then.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

VARIABLE: Final = "BMQ_RUNNING_TESTS"


class RunningTest:
    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._file.write_text(nodeid)

    def pytest_runtest_logfinish(self) -> None:
        self._file.write_text("")


def pytest_configure(config: pytest.Config) -> None:
    directory = os.environ.get(VARIABLE)
    # The process that hands tests out to xdist's workers hears of each one only when it has ended.
    hands_tests_out = bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")
    if directory and not hands_tests_out:
        config.pluginmanager.register(RunningTest(Path(directory) / str(os.getpid())))


def running_tests(directory: Path) -> list[str]:
    """By name; none when what ended was not a test."""
    return sorted(name for file in directory.iterdir() if (name := file.read_text()))
