"""Tests of real processes wait by one clock: a deadline of their own is as short on a slow machine as on a quick one."""

from __future__ import annotations

import re

import pytest

from tests.support.processes import REPOSITORY

pytestmark = pytest.mark.unit

OWN_DEADLINE = re.compile(r"(?:deadline|until_s|ends_at|give_up)\w* = time\.monotonic\(\) \+")
ALLOWED = {
    # Not waits: a process that is kept busy for so long.
    "tests/e2e/test_stopped_process.py",
    "tests/integration/test_namespaces.py",
}


def test_no_test_of_real_processes_has_a_deadline_of_its_own() -> None:
    found = {
        str(path.relative_to(REPOSITORY))
        for folder in ("e2e", "integration", "support")
        for path in (REPOSITORY / "tests" / folder).rglob("*.py")
        if OWN_DEADLINE.search(path.read_text())
    }
    assert found == ALLOWED, "wait through tests/support/patience.py"
