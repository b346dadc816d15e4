"""A pytest plugin that writes down what each test costs (`-p tests.support.measured_tests`).

One line of JSON for each test goes to the end of a file of its process, in the directory that BMQ_MEASURED_TESTS names: its name,
place, seconds and outcome with its fixtures, the sentence that it failed with, when it began on the system's monotonic
clock, processor seconds of this process and of children that ended, starts of Java, and the largest share of its
patience that any of its waits used.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from testing.patience import largest_used_share
from tests.support.places import place_of

VARIABLE: Final = "BMQ_MEASURED_TESTS"
ERROR_CHARACTERS_MAX: Final = 400


class MeasuredTests:
    def __init__(self, file: Path) -> None:
        self._file = file
        self._java_starts = 0
        self._outcome = "passed"
        self._error = ""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            words = [os.fsdecode(word) for word in arguments[1] or () if isinstance(word, str | bytes | os.PathLike)]
            self._java_starts += any(word == "java" or word.endswith("/java") for word in words)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[object]:
        largest_used_share()
        self._java_starts, self._outcome, self._error = 0, "passed", ""
        began_s, began_cpu = time.monotonic(), os.times()
        result = yield  # type: ignore[misc]
        ended_cpu = os.times()
        line = {
            "name": item.nodeid,
            "place": place_of(item.iter_markers()),
            "is_safety": item.get_closest_marker("safety") is not None,
            "outcome": self._outcome,
            "error": self._error,
            "began_s": round(began_s, 3),
            "seconds": round(time.monotonic() - began_s, 3),
            "cpu_s": round(sum(ended_cpu[:4]) - sum(began_cpu[:4]), 3),
            "java_starts": self._java_starts,
            "patience": round(largest_used_share(), 3),
        }
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._outcome = "failed"
            crash = getattr(report.longrepr, "reprcrash", None)
            message = str(crash.message if crash is not None else report.longrepr)
            self._error = self._error or message[:ERROR_CHARACTERS_MAX]


def pytest_configure(config: pytest.Config) -> None:
    directory = os.environ.get(VARIABLE)
    hands_tests_out = bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")
    if directory and not hands_tests_out:
        config.pluginmanager.register(MeasuredTests(Path(directory) / f"{os.getpid()}.jsonl"))
