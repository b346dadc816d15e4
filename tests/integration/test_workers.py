"""The supervisor of workers, with workers that do as they are told: processes, signals and pipes are real."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bmq.server.settings import Settings
from bmq.server.workers import WorkerSettingsWrong, worker_settings
from testing.processes import ManagedProcess, eventually
from tests.support.workers import started_pids

pytestmark = [pytest.mark.campaign("workers"), pytest.mark.timeout(120)]

WAIT_S = 40  # on a busy machine, too
HANG_S = 8  # one that gets no processor for some seconds does not hang
# Says that it is ready and beats. A file of its name and "breaks": it ends before it is ready, as with a bad setting.
PROGRAM = """
import asyncio, os, sys, uvloop
from pathlib import Path
from bmq.server.heartbeat import Heartbeat
from bmq.server.process import stop_on_signals
from bmq.server.settings import Settings
from bmq.server.workers import run_workers
from bmq.protocol.errors import BmqError

async def serve(settings, supervisor):
    stop = stop_on_signals()
    heartbeat = Heartbeat(supervisor, stop.set)
    heartbeat.start()
    print(f"ready {settings.node_id} {settings.listen}", flush=True)
    await stop.wait()
    print(f"left {settings.node_id}", flush=True)
    heartbeat.close()

def run(settings, supervisor):
    if Path(sys.argv[1], f"breaks-{settings.node_id}").exists():
        raise BmqError("this cannot be")
    uvloop.run(serve(settings, supervisor))

try:
    hang_ms = int(sys.argv[2])
    run_workers(Settings(workers=2, node_id=5, worker_hang_ms=hang_ms, listen="127.0.0.1:700", log_format="json"), run)
except BmqError as error:
    sys.exit(f"bmq: {error}")
"""


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[ManagedProcess]:
    process = ManagedProcess(
        "supervisor", [sys.executable, "-c", PROGRAM, str(tmp_path), f"{HANG_S * 1000}"], tmp_path / "log"
    )
    yield process
    for worker in pids(process):
        if psutil.pid_exists(worker):
            os.kill(worker, signal.SIGKILL)
    if process.is_running:
        process.kill()


def pids(supervisor: ManagedProcess) -> list[int]:
    return started_pids(supervisor.log_of_this_run())


def newest_pid(supervisor: ManagedProcess, node_id: int) -> int:
    """Of a worker that is ready: its supervisor may tell of its start a little later than it does."""

    def started() -> list[int]:
        return started_pids(supervisor.log_of_this_run(), node_id)

    eventually(lambda: len(started()) >= ready_count(supervisor, node_id), WAIT_S, "every start is told of")
    return started()[-1]


def ready_count(supervisor: ManagedProcess, node_id: int) -> int:
    return len(re.findall(rf"^ready {node_id} ", supervisor.log_of_this_run(), re.MULTILINE))


def start(supervisor: ManagedProcess) -> None:
    supervisor.start()
    for node_id in (5, 6):
        supervisor.wait_for_line(rf"^ready {node_id} 127.0.0.1:{695 + node_id}$", WAIT_S)


def is_gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.faults
def test_a_signal_ends_all_of_them_in_order(supervisor: ManagedProcess) -> None:
    start(supervisor)
    assert supervisor.stop(WAIT_S) == 0
    said = supervisor.log_of_this_run()
    assert "left 5" in said and "left 6" in said, said
    assert all(is_gone(pid) for pid in pids(supervisor))


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_one_that_ends_is_started_again_and_the_other_notices_nothing(
    supervisor: ManagedProcess, number: signal.Signals
) -> None:
    start(supervisor)
    for again in (2, 3):
        os.kill(newest_pid(supervisor, 6), number)
        eventually(lambda again=again: ready_count(supervisor, 6) == again, WAIT_S, "it is ready again")  # type: ignore[misc]
    assert ready_count(supervisor, 5) == 1 and not is_gone(newest_pid(supervisor, 5))
    assert supervisor.stop(WAIT_S) == 0


def test_one_that_stands_still_is_ended_and_started_again(supervisor: ManagedProcess) -> None:
    start(supervisor)
    hung = newest_pid(supervisor, 5)
    os.kill(hung, signal.SIGSTOP)
    eventually(lambda: ready_count(supervisor, 5) == 2, WAIT_S, "it is ready again")
    assert is_gone(hung) and newest_pid(supervisor, 5) != hung
    assert "worker_hung" in supervisor.log_of_this_run()
    assert ready_count(supervisor, 6) == 1
    assert supervisor.stop(WAIT_S) == 0


def test_one_that_stands_still_while_all_leave_is_not_waited_for(supervisor: ManagedProcess) -> None:
    start(supervisor)
    os.kill(newest_pid(supervisor, 6), signal.SIGSTOP)
    assert supervisor.stop(WAIT_S) == 0
    said = supervisor.log_of_this_run()
    assert "left 5" in said and "left 6" not in said, said
    assert all(is_gone(pid) for pid in pids(supervisor))


def test_a_supervisor_that_stood_still_blames_nobody(supervisor: ManagedProcess) -> None:
    """Longer than the bound of its workers; they wait for nothing."""
    start(supervisor)
    supervisor.pause()
    paused_s = time.monotonic()
    eventually(lambda: time.monotonic() > paused_s + 2 * HANG_S, WAIT_S, "a pause twice as long as their bound")
    supervisor.resume()
    assert supervisor.stop(WAIT_S) == 0
    assert "worker_hung" not in supervisor.log_of_this_run()


def test_without_a_supervisor_they_leave(supervisor: ManagedProcess) -> None:
    start(supervisor)
    workers = pids(supervisor)
    supervisor.kill()
    eventually(lambda: all(is_gone(pid) for pid in workers), WAIT_S, "they have left")
    said = supervisor.log_of_this_run()
    assert "left 5" in said and "left 6" in said, said


def test_one_that_cannot_start_ends_all(supervisor: ManagedProcess, tmp_path: Path) -> None:
    (tmp_path / "breaks-6").touch()
    supervisor.start()
    assert supervisor.wait(WAIT_S) == 1
    said = supervisor.log_of_this_run()
    assert "bmq: node 6: this cannot be" in said and "Traceback" not in said, said
    assert "bmq: node 6 ended with exit code 1 before it was ready" in said, said
    assert all(is_gone(pid) for pid in pids(supervisor))


def test_one_that_cannot_start_again_is_tried_again(supervisor: ManagedProcess, tmp_path: Path) -> None:
    start(supervisor)
    (tmp_path / "breaks-6").touch()
    os.kill(newest_pid(supervisor, 6), signal.SIGKILL)
    eventually(lambda: supervisor.log_of_this_run().count("this cannot be") >= 3, WAIT_S, "it is tried again and again")
    (tmp_path / "breaks-6").unlink()
    eventually(lambda: ready_count(supervisor, 6) == 2, WAIT_S, "it is ready again")
    assert ready_count(supervisor, 5) == 1
    assert supervisor.stop(WAIT_S) == 0


def test_ids_and_ports_follow() -> None:
    settings = Settings(node_id=3, listen="[::1]:9092", internal="h:9093", rest="h:0", advertised="kafka.example:443")
    second = worker_settings(settings, 2)
    assert (second.node_id, second.listen, second.internal, second.rest) == (5, "[::1]:9094", "h:9095", "h:0")
    assert (second.advertised, second.internal_advertised) == ("kafka.example:445", "")
    assert worker_settings(settings, 0) == settings


@pytest.mark.faults
def test_too_many_for_the_ports() -> None:
    with pytest.raises(WorkerSettingsWrong, match=r"internal h:65535 leaves no port for worker 2"):
        worker_settings(Settings(internal="h:65535"), 1)
