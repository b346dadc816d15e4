"""A pytest plugin for runs that share tests out to processes (`-p tests.support.telling_reports`): what passed is told once.

A worker of xdist tells the process that hands tests out how each setup, call and teardown went, with all that was printed. Of
what passed only the calls are counted, and nothing printed is shown; reading the rest takes that process half of its time.
"""

from __future__ import annotations

from typing import Any, Final

import pytest
from xdist.remote import WorkerInteractor

SHOWN_FROM_S: Final = 0.1
"""Longer setups and teardowns may be among the slowest, which the end of a run names (`--durations`)."""


def tells_something(report: dict[str, Any]) -> bool:
    """Of a report as a worker sends it."""
    return report["outcome"] != "passed" or report["when"] == "call" or report["duration"] >= SHOWN_FROM_S


def pytest_plugin_registered(plugin: object) -> None:
    if not isinstance(plugin, WorkerInteractor):
        return
    send = plugin.sendevent

    def send_what_tells(name: str, **told: Any) -> None:
        if name == "testreport":
            report = told["data"]
            if not tells_something(report):
                return
            if report["outcome"] == "passed":
                report["sections"] = []
        send(name, **told)

    pytest.MonkeyPatch().setattr(plugin, "sendevent", send_what_tells)
