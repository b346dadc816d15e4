"""Processes that are stopped and go on."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from testing.processes import eventually
from tests.support.jumping_clock import JUMP_S
from tools.stalls import end, stop_often, stopped

pytestmark = pytest.mark.campaign("unit")

CHILD = "print('ready', flush=True); input()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-S', '-E', '-c', {CHILD!r}])"


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that waits for its child, which waits for a line."""
    command = [sys.executable, "-S", "-E", "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"  # before, a stopped child may keep its parent in vfork
        yield process
        end(process)


def states(process: subprocess.Popen[bytes]) -> list[bool]:
    """Whether it, and its child, stand still."""
    found = psutil.Process(process.pid)
    return [each.status() == psutil.STATUS_STOPPED for each in (found, *found.children())]


def test_a_process_and_its_child_stand_still_together_and_go_on(parent: subprocess.Popen[bytes]) -> None:
    with stopped(parent.pid):
        eventually(lambda: states(parent) == [True, True], 30, "both stand still")
    eventually(lambda: states(parent) == [False, False], 30, "both go on")


def test_one_of_them_stands_still_and_goes_on(parent: subprocess.Popen[bytes]) -> None:
    chosen = set[int]()
    for seed in range(20):
        with stopped(parent.pid, random.Random(seed)):
            eventually(lambda: any(states(parent)), 30, "one stands still")
            now = states(parent)
            assert sum(now) == 1
            chosen.add(now.index(True))
        eventually(lambda: not any(states(parent)), 30, "it goes on")
    assert chosen == {0, 1}


def test_they_go_on_after_an_error(parent: subprocess.Popen[bytes]) -> None:
    with pytest.raises(KeyboardInterrupt), stopped(parent.pid):
        raise KeyboardInterrupt
    eventually(lambda: states(parent) == [False, False], 30, "both go on")


def test_one_that_has_ended_is_left_alone() -> None:
    process = subprocess.Popen([sys.executable, "-S", "-E", "-c", ""])
    process.wait()
    with stopped(process.pid):
        pass
    assert stop_often(process, random.Random(1)) == 0


def test_it_is_stopped_until_it_ends(parent: subprocess.Popen[bytes]) -> None:
    """The line that ends it comes in its second stop."""
    lengths_s = list[float]()

    def sleep(length_s: float) -> None:
        lengths_s.append(length_s)
        if len(lengths_s) == 2:
            assert parent.stdin is not None
            parent.stdin.write(b"\n")
            parent.stdin.flush()

    assert stop_often(parent, random.Random(1), sleep) == 0
    assert len(lengths_s) >= 2
    assert all(JUMP_S[0] <= length_s <= JUMP_S[1] for length_s in lengths_s)
