"""Tests of real processes wait by one clock: a deadline of their own is as short on a slow machine as on a quick one."""

from __future__ import annotations

import ast
import re

import pytest

from testing.processes import REPOSITORY

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
        for folder in ("tests/e2e", "tests/integration", "tests/support", "testing")
        for path in (REPOSITORY / folder).rglob("*.py")
        if OWN_DEADLINE.search(path.read_text())
    }
    assert found == ALLOWED, "wait through testing/patience.py"


WAITS = {"run", "check_output", "check_call", "communicate", "urlopen", "create_connection", "wait_procs"}
CONSTANT = re.compile(r"\btimeout\s*=\s*[\d.]")
"""Only a text that has this is read as Python."""
SHORTEST_WAIT_S = 5
"""A shorter limit is a turn of a loop that asks again, or is to run out."""


def constant_limits(source: str) -> list[int]:
    """Lines of calls that wait for another process, for a time that is the same on each machine."""
    if not CONSTANT.search(source):
        return []
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [
        call.lineno
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in WAITS
        for given in call.keywords
        if given.arg == "timeout"
        and isinstance(given.value, ast.Constant)
        and isinstance(given.value.value, int | float)
        and given.value.value >= SHORTEST_WAIT_S
    ]


@pytest.mark.parametrize(
    ("call", "is_found"),
    [
        ("subprocess.run(words, timeout=30)", True),
        ("process.communicate(timeout=30.0)", True),
        ("subprocess.run(words, timeout=Patience(30).limit_s)", False),
        ("subprocess.run(words, timeout=None)", False),
        ("urllib.request.urlopen(url, timeout=0.5)", False),
        ("consumer.consume(3, timeout=30)", False),
    ],
)
def test_constant_limits_are_found(call: str, is_found: bool) -> None:
    assert constant_limits(call) == [1] * is_found


def test_no_test_of_real_processes_gives_another_process_a_constant_time() -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for folder in ("tests/e2e", "tests/integration", "tests/simulation", "tests/support", "tests/unit", "testing")
        for path in sorted((REPOSITORY / folder).rglob("*.py"))
        for line in constant_limits(path.read_text())
    ]
    assert found == [], "timeout=Patience(30).limit_s (testing/patience.py)"
