"""A supervisor ends the ZooKeeper session of a worker that died: the next one need not wait for its timeout.

Workers do nothing but join the election; processes, signals, pipes and ZooKeeper are real.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from bmq.dev.zookeeper import ZooKeeperServer
from testing.hdfs import outside_any_loop
from testing.processes import ManagedProcess, eventually
from testing.zookeeper import fresh_chroot
from tests.support.workers import started_pids

pytestmark = [pytest.mark.campaign("workers"), pytest.mark.timeout(120)]

# Nobody here has the patience to wait for the end of such a session.
SESSION_MS = 60_000
WAIT_S = 40
NODE_ID = 5
PROGRAM = """
import asyncio, os, sys, uvloop
from pathlib import Path
from bmq.server.heartbeat import Heartbeat
from bmq.server.process import stop_on_signals
from bmq.server.settings import Settings
from bmq.server.workers import run_workers
from bmq.election.election import Member
from bmq.election.zookeeper import ZooKeeperElection
from bmq.protocol.errors import BmqError

async def serve(settings, supervisor):
    print(f"born {settings.node_id}", flush=True)
    stop = stop_on_signals()
    heartbeat = Heartbeat(supervisor, stop.set)

    def tell(key):
        Path(sys.argv[1], f"{os.getpid()}-{key.id}.password").write_bytes(key.password)
        heartbeat.send_session(key)

    timeout_s = settings.cluster.zookeeper_session_ms / 1000
    election = ZooKeeperElection(
        settings.zookeeper, node_id=settings.node_id, session_timeout_s=timeout_s, start_wait_s=60.0, on_session=tell
    )
    await election.start("orders")
    await election.join(Member(settings.node_id, str(os.getpid()), "h", 1))
    heartbeat.start()
    print(f"ready {settings.node_id}", flush=True)
    await stop.wait()
    if Path(sys.argv[1], "crash").exists():
        Path(sys.argv[1], "crash").unlink()
        os._exit(3)
    await election.close()
    print(f"left {settings.node_id}", flush=True)
    heartbeat.close()

def run(settings, supervisor):
    uvloop.run(serve(settings, supervisor))

settings = Settings(
    workers=1, node_id=5, worker_hang_ms=8000, zookeeper=sys.argv[2], log_format="json", log_level="debug",
    cluster={"zookeeper_session_ms": int(sys.argv[3])},
)
try:
    run_workers(settings, run)
except BmqError as error:
    sys.exit(f"bmq: {error}")
"""


class Supervisor(ManagedProcess):
    def __init__(self, directory: Path, zookeeper: ZooKeeperServer, session_ms: int = SESSION_MS) -> None:
        root = fresh_chroot("worker-sessions")
        command = [sys.executable, "-c", PROGRAM, str(directory), f"{zookeeper.address}{root}", str(session_ms)]
        super().__init__("supervisor", command, directory / "log")
        self.directory = directory

    def count(self, what: str) -> int:
        return len(re.findall(what, self.log_of_this_run(), re.MULTILINE))

    @property
    def workers(self) -> list[int]:
        return started_pids(self.log_of_this_run(), NODE_ID)

    def start_ready(self) -> None:
        self.start()
        self.wait_ready(1)

    def wait_ready(self, times: int) -> None:
        eventually(lambda: self.count("^ready") >= times <= len(self.workers), WAIT_S, f"it is ready\n{self}")

    def signal_worker(self, number: signal.Signals) -> None:
        os.kill(self.workers[-1], number)

    def passwords(self) -> list[bytes]:
        return [path.read_bytes() for path in self.directory.glob("*.password")]

    def assert_ends_are_told(self, times: int) -> None:
        """A little after the next worker is ready, maybe."""
        eventually(lambda: self.count("session_ended") == times, WAIT_S, f"it is told\n{self}")

    def close(self) -> None:
        workers = self.workers
        if self.is_running:
            self.kill()
        for pid in workers:
            if psutil.pid_exists(pid):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def supervisor(tmp_path: Path, zookeeper: ZooKeeperServer) -> Iterator[Supervisor]:
    supervisor = Supervisor(tmp_path, zookeeper)
    yield supervisor
    supervisor.close()


@pytest.mark.faults
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
def test_the_next_worker_takes_its_place_at_once(supervisor: Supervisor, number: signal.Signals) -> None:
    supervisor.start_ready()
    for again in (2, 3):
        supervisor.signal_worker(number)
        supervisor.wait_ready(again)
        supervisor.assert_ends_are_told(again - 1)
    assert supervisor.count('"was_over": true') == 0
    assert supervisor.stop(WAIT_S) == 0
    assert supervisor.count("^left") == 1


def test_one_that_ends_by_itself_with_an_error(supervisor: Supervisor) -> None:
    supervisor.start_ready()
    (supervisor.directory / "crash").touch()
    supervisor.signal_worker(signal.SIGTERM)
    supervisor.wait_ready(2)
    supervisor.assert_ends_are_told(1)
    assert supervisor.stop(WAIT_S) == 0


def test_one_that_leaves_in_order_ends_its_session_itself(supervisor: Supervisor) -> None:
    supervisor.start_ready()
    supervisor.signal_worker(signal.SIGTERM)
    supervisor.wait_ready(2)
    assert supervisor.stop(WAIT_S) == 0
    assert (supervisor.count("^left"), supervisor.count("session_ended")) == (2, 0)


def test_one_that_is_killed_while_all_leave(supervisor: Supervisor) -> None:
    """The cluster need not wait for it either."""
    supervisor.start_ready()
    supervisor.signal_worker(signal.SIGSTOP)
    assert supervisor.stop(WAIT_S) == 0
    assert supervisor.count("session_ended") == 1


def test_the_password_is_shown_nowhere(supervisor: Supervisor) -> None:
    supervisor.start_ready()
    supervisor.signal_worker(signal.SIGKILL)
    supervisor.wait_ready(2)
    supervisor.assert_ends_are_told(1)
    shown = supervisor.log_of_this_run().encode()
    for pid in (supervisor.pid, supervisor.workers[-1]):
        shown += Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    passwords = supervisor.passwords()
    assert len(passwords) == 2
    for password in passwords:
        assert password not in shown and password.hex().encode() not in shown and repr(password).encode() not in shown
    assert supervisor.stop(WAIT_S) == 0


def test_a_zookeeper_that_is_away_holds_no_start_up(tmp_path: Path, own_zookeeper: ZooKeeperServer) -> None:
    supervisor = Supervisor(tmp_path, own_zookeeper)
    try:
        supervisor.start_ready()
        outside_any_loop(own_zookeeper.pause())
        for again in (2, 3):
            supervisor.signal_worker(signal.SIGKILL)
            eventually(lambda again=again: supervisor.count("^born") == again, WAIT_S, "the next one is there")  # type: ignore[misc]
            eventually(lambda again=again: len(supervisor.workers) == again, WAIT_S, "its start is told of")  # type: ignore[misc]
        outside_any_loop(own_zookeeper.resume())
        supervisor.wait_ready(2)  # the first one's session was ended meanwhile; the second one had none
        assert supervisor.stop(WAIT_S) == 0
    finally:
        supervisor.close()


def test_a_zookeeper_that_stays_away_ends_the_tries(tmp_path: Path, own_zookeeper: ZooKeeperServer) -> None:
    supervisor = Supervisor(tmp_path, own_zookeeper, session_ms=2_000)
    try:
        supervisor.start_ready()
        outside_any_loop(own_zookeeper.stop())
        supervisor.signal_worker(signal.SIGKILL)
        eventually(lambda: supervisor.count("session_not_ended") == 1, WAIT_S, "it gives up")
        outside_any_loop(own_zookeeper.start())
        supervisor.wait_ready(2)  # the session has timed out
        assert supervisor.stop(WAIT_S) == 0
    finally:
        supervisor.close()
