"""A job's process: what it says is told, how it ended is told, and nothing of its group is left."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bmq.spark.supervisor.job_process import JobProcess, how_it_ended
from bmq.spark.tables.ending import Ending
from bmq.spark.tables.job_lines import StateLine
from testing.processes import eventually

pytestmark = pytest.mark.unit

WAIT_S = 60.0


class Job:
    """A process that runs Python's `code`, and what it told."""

    def __init__(self, code: str) -> None:
        self.alive = threading.Semaphore(0)
        self.lines: list[str] = []
        self.line = threading.Semaphore(0)
        self.ends: list[tuple[Ending, str | None]] = []
        self.process = JobProcess(
            [sys.executable, "-I", "-S", "-c", code],
            os.environ,
            on_alive=self.alive.release,
            on_line=self._take,
            on_end=lambda ending, error: self.ends.append((ending, error)),
        )

    def _take(self, line: str) -> None:
        self.lines.append(line)
        self.line.release()

    def end(self) -> tuple[Ending, str | None]:
        self.process.join()
        (end,) = self.ends
        return end


@pytest.fixture
def begun() -> Iterator[list[Job]]:
    jobs: list[Job] = []
    yield jobs
    for job in jobs:
        job.process.kill()
        job.process.join()


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_its_states_are_told(begun: list[Job]) -> None:
    job = Job(
        "import json, sys\n"
        'print(\'{"table":"orders","batch":1}\', flush=True)\n'
        'print(json.dumps({"state": "running", "table": "orders"}), flush=True)\n'
        'print("a warning", file=sys.stderr, flush=True)\n'
        "sys.stdin.read(1)\n"
        'print(json.dumps({"state": "refused", "table": "orders", "error": "drop it first"}), flush=True)\n'
        "sys.exit(2)\n"
    )
    begun.append(job)
    assert job.alive.acquire(timeout=WAIT_S) and job.line.acquire(timeout=WAIT_S)
    assert job.lines == ["a warning"] and job.ends == []
    assert job.process._process.stdin is not None
    job.process._process.stdin.close()
    assert job.end() == (Ending.REFUSED, "drop it first")
    assert not job.alive.acquire(blocking=False)


def test_it_is_asked_to_stop(begun: list[Job]) -> None:
    job = Job(
        "import signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        'print(\'{"state":"running"}\', flush=True)\n'
        "signal.sigwait([signal.SIGTERM])\n"
        'print(\'{"state":"stopped"}\', flush=True)\n'
    )
    begun.append(job)
    assert job.alive.acquire(timeout=WAIT_S)
    job.process.stop()
    assert job.end() == (Ending.STOPPED, None)
    job.process.stop()
    job.process.kill()


@pytest.mark.parametrize("is_killed", [True, False])
def test_nothing_of_its_group_is_left(begun: list[Job], is_killed: bool) -> None:
    """As Spark's JVM: a child that outlives its parent, and holds its outputs."""
    job = Job(
        "import os, signal, sys\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        '    print(\'{"state":"running"}\', flush=True)\n'
        "    while True: signal.pause()\n"
        "print(child, file=sys.stderr, flush=True)\n"
        "sys.stdin.read(1)\n"
        "sys.exit(3)\n"
    )
    begun.append(job)
    assert job.alive.acquire(timeout=WAIT_S) and job.line.acquire(timeout=WAIT_S)
    child = int(job.lines[0])
    assert is_there(child)
    if is_killed:
        job.process.kill()
        assert job.end() == (Ending.FAILED, "the job was killed by SIGKILL")
    else:
        assert job.process._process.stdin is not None
        job.process._process.stdin.close()
        assert job.end() == (Ending.FAILED, f"the job ended with exit code 3: {child}")
    # The signal was sent before the end was told; the kernel ends the child when it finds the time.
    eventually(lambda: not is_there(child), WAIT_S, "the end of the job's child")


def test_what_cannot_be_started_is_an_os_error() -> None:
    with pytest.raises(FileNotFoundError):
        JobProcess(
            ["/nowhere/python"], {}, on_alive=lambda: None, on_line=lambda line: None, on_end=lambda ending, error: None
        )


@pytest.mark.parametrize(
    ("code", "said", "errors", "ending", "error"),
    [
        (0, StateLine(Ending.STOPPED), [], Ending.STOPPED, None),
        (2, StateLine(Ending.TAKEN, "taken"), ["bmq: taken"], Ending.TAKEN, "taken"),
        (-9, None, ["Killed"], Ending.FAILED, "the job was killed by SIGKILL"),
        (-99, None, [], Ending.FAILED, "the job was killed by signal 99"),
        (1, None, ["bmq: no Java", " "], Ending.FAILED, "the job ended with exit code 1: no Java"),
        (1, None, ["x", "MemoryError ", ""], Ending.FAILED, "the job ended with exit code 1: MemoryError"),
        (137, None, [], Ending.FAILED, "the job ended with exit code 137"),
    ],
)
def test_how_it_ended(code: int, said: StateLine | None, errors: list[str], ending: Ending, error: str | None) -> None:
    assert how_it_ended(code, said, errors) == (ending, error)
