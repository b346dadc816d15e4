"""A part that fails says which errors the nodes logged, whose logs go with their directories."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.findings import Findings
from bench.logged_errors import LINE_CHARACTERS_MAX, LINES_MAX, logged_errors, said, with_logged_errors
from bench.measured_parts import measured_parts
from bench.queues.plan import plan_of
from testing.processes import REPOSITORY

pytestmark = pytest.mark.campaign("unit")


def logged(path: Path, *entries: object) -> Path:
    path.write_text("".join(f"{entry if isinstance(entry, str) else json.dumps(entry)}\n" for entry in entries))
    return path


OFFLINE = {
    "topic": "asked",
    "partition": 1,
    "reason": "AttributeError: no time",
    "event": "partition_offline",
    "level": "error",
    "timestamp": "2026-11-29T21:46:40.353935Z",
    "exception": "Traceback",
}
SAID = "node-1 logged partition_offline topic=asked partition=1 reason=AttributeError: no time"


def test_errors_are_found_among_other_lines(tmp_path: Path) -> None:
    log = logged(tmp_path / "node-1.log", "bmq ready kafka=1", "[1]", {"event": "started", "level": "info"}, OFFLINE)
    assert logged_errors([tmp_path / "missing.log", log]) == [SAID]


def test_not_more_than_the_first_ones_are_told(tmp_path: Path) -> None:
    long = {"event": "failed", "level": "critical", "reason": "x" * 1000}
    log = logged(tmp_path / "node.log", *[long] * (LINES_MAX + 3))
    found = logged_errors([log])
    assert len(found) == LINES_MAX and {len(line) for line in found} == {LINE_CHARACTERS_MAX}


def test_a_failed_side_and_a_failed_part_say_them(tmp_path: Path) -> None:
    log = logged(tmp_path / "node-1.log", OFFLINE)
    findings = Findings()
    with findings.attempt(["half"], "bmq"), with_logged_errors([log]):
        raise AssertionError("not acknowledged")
    assert findings.failures == {"half": [f"bmq: AssertionError: not acknowledged; {SAID}"]}

    def run() -> None:
        with with_logged_errors([log]):
            raise AssertionError("not acknowledged")

    findings = Findings()
    measured_parts(plan_of(("half",), ("bmq",), ""), findings, {"half": run})
    assert findings.failures == {"half": [f"AssertionError: not acknowledged; {SAID}"]}


def test_a_part_that_does_not_fail_says_nothing(tmp_path: Path) -> None:
    findings = Findings()
    with findings.attempt(["half"], "bmq"), with_logged_errors([logged(tmp_path / "node-1.log", OFFLINE)]):
        pass
    assert findings.failures == {}


def test_an_error_does_not_tell_where_the_tree_is() -> None:
    error = OSError(f"{REPOSITORY / '.venv' / 'bin' / 'python'} has ended")
    error.add_note(f"see {REPOSITORY / 'log'}")
    assert said(error) == "OSError: .venv/bin/python has ended; see log"
