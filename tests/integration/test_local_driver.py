"""Nodes as processes on this machine: started, found again by another driver, stopped, and no other process touched."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from bmq.admin.drivers.commands import OUTPUT_BYTES_MAX, run_command
from bmq.admin.drivers.driver import DriverFailed, NodeSpec
from bmq.admin.drivers.local import LocalProcesses
from bmq.admin.drivers.processes import send_signal, start_mark
from testing.patience import Patience

pytestmark = [pytest.mark.contract, pytest.mark.timeout(60)]

SERVE = """
import signal, sys
def stop(*_):
    print("stopping", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", sys.argv[1], flush=True)
while True:
    signal.pause()
"""
IGNORE = 'import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print("ready", flush=True); signal.pause()'
FAIL = 'import sys; sys.exit("bmq: ZooKeeper does not answer")'


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(Patience(20).limit_s):
        while not condition():  # noqa: ASYNC110  it is a file that another process writes
            await asyncio.sleep(0.01)


class Drivers:
    """Drivers over one directory, each as a process of its own would have it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.all: list[LocalProcesses] = []

    def one(self, program: str = SERVE, *, stop_wait_s: float = 20) -> LocalProcesses:
        def command_of(spec: NodeSpec) -> Sequence[str]:
            return [sys.executable, "-S", "-c", program, str(spec.node_id)]

        self.all.append(LocalProcesses(self.directory, range(100, 110), command_of, stop_wait_s=stop_wait_s))
        return self.all[-1]

    def pid(self, node_id: int) -> int:
        return int(json.loads((self.directory / f"node-{node_id}.json").read_text())["pid"])

    def log(self, node_id: int) -> str:
        return (self.directory / f"node-{node_id}.log").read_text()


@pytest.fixture
async def drivers(tmp_path: Path) -> AsyncIterator[Drivers]:
    found = Drivers(tmp_path / "nodes")
    yield found
    last = found.one(stop_wait_s=0)
    for handle in await last.list_nodes():
        await last.stop_node(handle.node_id)
    for driver in found.all:
        await driver.list_nodes()  # waits for children that ended


async def test_a_node_is_started_listed_and_stopped(drivers: Drivers) -> None:
    driver = drivers.one()
    assert await driver.list_nodes() == []
    assert await driver.next_node_ids(2, {100}) == (101, 102)
    handle = await driver.start_node(NodeSpec(101, "broker"))
    pid = drivers.pid(101)
    assert (handle.is_running, handle.detail) == (True, f"pid {pid}")
    assert os.getsid(pid) == pid, "it would end with our terminal"
    await until(lambda: "ready 101" in drivers.log(101))
    assert (await driver.start_node(NodeSpec(101, "broker"))).detail == f"pid {pid}", "started twice"
    assert await driver.next_node_ids(2, ()) == (100, 102)
    await driver.stop_node(101)
    assert start_mark(pid) is None
    assert drivers.log(101).endswith("stopping\n")
    assert await driver.list_nodes() == []
    await driver.stop_node(101)


async def test_another_driver_finds_and_stops_it(drivers: Drivers) -> None:
    first, second = drivers.one(), drivers.one()
    await first.start_node(NodeSpec(100, "broker"))
    await until(lambda: "ready" in drivers.log(100))
    pid = drivers.pid(100)
    (handle,) = await second.list_nodes()
    assert (handle.node_id, handle.is_running, handle.detail) == (100, True, f"pid {pid}")
    await second.stop_node(100)
    assert await first.list_nodes() == []
    assert not Path(f"/proc/{pid}").exists(), "a zombie is left"


async def test_one_that_ended_by_itself_is_told_with_its_last_words(drivers: Drivers) -> None:
    driver = drivers.one(FAIL)
    await driver.start_node(NodeSpec(100, "broker"))
    pid = drivers.pid(100)
    await until(lambda: start_mark(pid) is None)
    (handle,) = await driver.list_nodes()
    assert (handle.is_running, handle.detail) == (False, "it ended: bmq: ZooKeeper does not answer")
    assert await driver.next_node_ids(1, ()) == (100,)
    await driver.stop_node(100)
    assert await driver.list_nodes() == []


async def test_a_foreign_process_with_the_same_number_is_left_alone(drivers: Drivers) -> None:
    driver = drivers.one()
    await driver.start_node(NodeSpec(100, "broker"))
    await driver.stop_node(100)
    other = subprocess.Popen([sys.executable, "-S", "-c", IGNORE], stdout=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        stale = {"node_id": 100, "pid": other.pid, "mark": "another boot/1"}
        (drivers.directory / "node-100.json").write_text(json.dumps(stale))
        assert [handle.is_running for handle in await driver.list_nodes()] == [False]
        await driver.stop_node(100)
        assert other.poll() is None
        assert not send_signal(other.pid, "another boot/1", signal.SIGKILL)
        assert other.poll() is None
        assert await driver.list_nodes() == []
    finally:
        other.kill()
        other.wait()


async def test_one_that_does_not_stop_is_killed(drivers: Drivers) -> None:
    driver = drivers.one(IGNORE, stop_wait_s=0.1)
    await driver.start_node(NodeSpec(100, "broker"))
    await until(lambda: "ready" in drivers.log(100))
    pid = drivers.pid(100)
    await driver.stop_node(100)
    assert start_mark(pid) is None


async def test_one_that_stands_still_is_woken_to_stop(drivers: Drivers) -> None:
    driver = drivers.one()
    await driver.start_node(NodeSpec(100, "broker"))
    await until(lambda: "ready" in drivers.log(100))
    os.kill(drivers.pid(100), signal.SIGSTOP)
    await driver.stop_node(100)
    assert drivers.log(100).endswith("stopping\n")


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "{}", '{"node_id": 7, "pid": 1, "mark": "x"}', '{"node_id": 100}']
)
async def test_files_that_are_not_ours_are_passed_over(drivers: Drivers, text: str) -> None:
    drivers.directory.mkdir()
    (drivers.directory / "node-100.json").write_text(text)
    (drivers.directory / "notes.json").write_text(text)
    driver = drivers.one()
    assert await driver.list_nodes() == []
    await driver.stop_node(100)


async def test_what_cannot_be_started_is_said(tmp_path: Path) -> None:
    driver = LocalProcesses(tmp_path, range(100, 101), lambda spec: [str(tmp_path / "no-such-program")])
    with pytest.raises(DriverFailed, match=r"node 100 cannot be started: .*no-such-program"):
        await driver.start_node(NodeSpec(100, "broker"))
    (tmp_path / "file").touch()
    driver = LocalProcesses(tmp_path / "file" / "below", range(100, 101), lambda spec: [sys.executable])
    with pytest.raises(DriverFailed, match="below cannot be used: Not a directory"):
        await driver.start_node(NodeSpec(100, "broker"))
    with pytest.raises(DriverFailed, match="2 node ids are needed and 1 of 100 to 100 are free"):
        await LocalProcesses(tmp_path, range(100, 101), lambda spec: []).next_node_ids(2, ())


# --- commands


async def test_a_command_is_heard() -> None:
    program = "import sys; print('said'); print('complained', file=sys.stderr); sys.exit(3)"
    result = await run_command([sys.executable, "-S", "-c", program], 20)
    assert (result.exit_code, result.output, result.errors) == (3, "said\n", "complained\n")


async def test_a_command_that_cannot_be_run_or_does_not_end() -> None:
    with pytest.raises(DriverFailed, match="no-such-command cannot be run: No such file or directory"):
        await run_command(["no-such-command"], 20)
    with pytest.raises(DriverFailed, match=r"did not end within 0\.2 s"):
        await run_command([sys.executable, "-S", "-c", IGNORE], 0.2)
    with pytest.raises(DriverFailed, match="said more than"):
        await run_command([sys.executable, "-S", "-c", f"print('x' * {OUTPUT_BYTES_MAX + 1})"], 20)
