"""What a worker does not tell is neither counted nor shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY
from tests.support.telling_reports import SHOWN_FROM_S, tells_something

pytestmark = pytest.mark.campaign("unit")

TESTS: Final = """
import time

import pytest


@pytest.fixture
def broken_before():
    raise RuntimeError("was never set up")


@pytest.fixture
def broken_after():
    print("said by the fixture")
    yield
    raise RuntimeError("was not torn down")


@pytest.fixture
def slow():
    time.sleep(0.2)


@pytest.mark.parametrize("number", range(20))
def test_passes(number):
    print("said by a test that passes")


def test_fails():
    print("said by a test that fails")
    assert 1 == 2


def test_is_not_set_up(broken_before):
    pass


def test_is_not_torn_down(broken_after):
    pass


def test_is_skipped():
    pytest.skip("for a reason")


def test_with_a_slow_fixture(slow):
    pass
"""


@pytest.mark.parametrize("when", ["setup", "call", "teardown"])
@pytest.mark.parametrize("outcome", ["passed", "failed", "skipped"])
def test_only_what_passed_at_once_beside_the_call_is_left_out(when: str, outcome: str) -> None:
    told = {"when": when, "outcome": outcome, "duration": 0.0}
    assert tells_something(told) == (when == "call" or outcome != "passed")
    assert tells_something({**told, "duration": SHOWN_FROM_S})


def test_a_run_says_the_same_with_it(tmp_path: Path) -> None:
    (tmp_path / "test_story.py").write_text(TESTS)

    def said(*plugin: str) -> tuple[str, list[str]]:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *plugin]
        options = ["-n", "1", "--rootdir", str(tmp_path), "--durations=1", "-rs", str(tmp_path)]
        ran = subprocess.run(
            [*command, *options],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            capture_output=True,
            text=True,
            timeout=Patience(60).limit_s,
        )
        *lines, closing = re.sub(r"\b0x[0-9a-f]+|\d+\.\d+s", "", ran.stdout).splitlines()
        return closing, lines

    closing, lines = said("-p", "tests.support.telling_reports")
    assert (closing, lines) == said()
    assert re.match(r"1 failed, 22 passed, 1 skipped, 2 errors in", closing), closing
    text = "\n".join(lines)
    assert "said by a test that fails" in text and "said by the fixture" in text and "passes" not in text
    assert re.search(r"setup +test_story.py::test_with_a_slow_fixture", text)
