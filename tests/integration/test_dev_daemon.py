"""A daemon as a process: every order does what it says, and nothing outlives whoever started it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from bmq.dev.daemon import Daemon, DaemonFailed, WrongDaemonState
from testing.processes import eventually

pytestmark = pytest.mark.contract

# Serves as soon as its log says so; SIGTERM ends it in order, unless it is told to be deaf.
SERVER = """
import signal, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
else:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
print("ready", flush=True)
while True:
    time.sleep(0.01)
    print("tick", flush=True)
"""


def new_daemon(directory: Path, *arguments: str, program: str = SERVER) -> Daemon:
    async def probe() -> str | None:
        return None if "ready" in daemon.log_head() else "it has not said so"  # type: ignore[attr-defined]

    daemon: Daemon = Daemon("server", [sys.executable, "-c", program, *arguments], directory / "server.log", probe)
    return daemon


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    made = new_daemon(tmp_path)
    yield made
    await made.kill()


def is_there(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in ("Z", "X")


async def test_start_stop_and_start_again(daemon: Daemon) -> None:
    assert (daemon.state, daemon.pid) == ("stopped", None)
    await daemon.start()
    first = daemon.pid
    assert daemon.state == "running"
    assert first is not None
    with pytest.raises(WrongDaemonState, match="is running already"):
        await daemon.start()
    await daemon.stop()
    assert (daemon.state, daemon.exit_text, daemon.pid) == ("stopped", "exit code 0", None)
    await daemon.stop()
    await daemon.restart()
    assert daemon.pid not in (first, None)


async def test_kill_is_at_once_and_for_paused_ones_too(daemon: Daemon) -> None:
    await daemon.start()
    await daemon.pause()
    assert (daemon.state, daemon.is_running) == ("paused", True)
    await daemon.kill()
    assert (daemon.state, daemon.exit_text) == ("stopped", "SIGKILL")


async def test_a_paused_daemon_does_nothing_until_it_is_resumed(daemon: Daemon) -> None:
    await daemon.start()
    await daemon.pause()
    assert daemon.pid is not None
    states = [
        stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{daemon.pid}/task").glob("*/stat")
    ]
    assert set(states) == {"T"}, "the kernel has not stopped all threads"
    before = daemon.log_file.stat().st_size
    await asyncio.sleep(0.1)  # ten times what it needs for a line
    assert daemon.log_file.stat().st_size == before
    await daemon.resume()
    eventually(lambda: daemon.log_file.stat().st_size > before, 5, "it goes on")


async def test_a_paused_daemon_can_be_stopped_in_order(daemon: Daemon) -> None:
    await daemon.start()
    await daemon.pause()
    await daemon.stop()
    assert (daemon.state, daemon.exit_text) == ("stopped", "exit code 0")


async def test_one_that_ignores_sigterm_is_killed_after_the_bound(tmp_path: Path) -> None:
    daemon = new_daemon(tmp_path, "deaf")
    await daemon.start()
    await daemon.stop(timeout_s=0.2)
    assert daemon.exit_text == "SIGKILL"


async def test_orders_to_what_does_not_run(daemon: Daemon) -> None:
    for order in (daemon.pause, daemon.resume):
        with pytest.raises(WrongDaemonState, match="server is not running"):
            await order()
    await daemon.kill()


async def test_one_that_dies_while_starting_shows_the_end_of_its_own_log(tmp_path: Path) -> None:
    daemon = new_daemon(tmp_path, program="print('port 8020 is taken'); raise SystemExit(7)")
    daemon.log_file.write_text("ready, said an earlier run\n")
    with pytest.raises(DaemonFailed, match=r"(?s)server ended with exit code 7 while it started.*port 8020") as caught:
        await daemon.start()
    assert "earlier run" not in str(caught.value)


async def test_one_that_is_never_ready_is_named_with_the_reason(tmp_path: Path) -> None:
    daemon = new_daemon(tmp_path, program="import time; time.sleep(600)")
    with pytest.raises(DaemonFailed, match=r"server was not ready within 0\.3 s: it has not said so"):
        await daemon.start(timeout_s=0.3)
    await daemon.kill()


def test_it_is_nobody_s_loop(tmp_path: Path) -> None:
    daemon = new_daemon(tmp_path)
    asyncio.run(daemon.start())
    assert daemon.is_running
    asyncio.run(daemon.stop())
    assert daemon.exit_text == "exit code 0"


PARENT = f"""
import asyncio, signal, sys, time
from pathlib import Path
from bmq.dev.daemon import Daemon

signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background inherits that it is ignored
async def ready(): return None
daemon = Daemon("server", [sys.executable, "-c", {SERVER!r}], Path(sys.argv[1]), ready)
asyncio.run(daemon.start())
print(daemon.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_daemon_outlives_its_parent(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "server.log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_there(pid)
        os.kill(parent.pid, number)
        parent.wait(10)
    eventually(lambda: not is_there(pid), 10, f"the daemon {pid} ends with its parent")
