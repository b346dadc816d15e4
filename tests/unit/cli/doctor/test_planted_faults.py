"""`bmq doctor` names each fault that is planted; the real limits and clocks of a process are in tests/e2e/test_doctor.py."""

from __future__ import annotations

import asyncio
import datetime
import socket
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
import trustme

from bmq.cli.doctor.examination import Examination, Subject
from bmq.cli.doctor.finding import Finding, Verdict, exit_code
from bmq.cli.doctor.probes.appends import append_probe
from bmq.log.store import Appended, Buffer, Durability, FileStatus, SegmentStore, SegmentWriter
from bmq.server.settings import Settings
from tests.fakes.hadoop_ipc import ScriptedServer
from tests.fakes.store import FakeStore, Faults
from tests.unit.cli.doctor.machines import MEMINFO, FakeClock, FakeNodes, disk_of, machine, proc
from tests.unit.cli.doctor.scripted_hdfs import GIB, ScriptedHdfs

pytestmark = pytest.mark.unit

RELEASE: Final = version("bmq")
FINE: Final = FakeNodes({"10.0.0.1": RELEASE})


def free_settings(**values: Any) -> Settings:
    """On ports that the system chooses."""
    return Settings(**({"listen": "127.0.0.1:0", "rest": "127.0.0.1:0", "internal": "127.0.0.1:0"} | values))


def certificate(directory: Path, days: int) -> Path:
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)
    path = directory / "node.pem"
    path.write_bytes(trustme.CA().issue_cert("localhost", not_after=end).private_key_and_cert_chain_pem.bytes())
    path.chmod(0o600)
    return path


class PausedStore:
    """A store on which one append takes `pause_s` of the clock. Everything else is the fake's own."""

    def __init__(self, store: SegmentStore, clock: FakeClock, pause_s: float) -> None:
        self._store = store
        self._clock = clock
        self._pause_s = pause_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create_segment(
        self, path: str, *, holder: str, durability: Durability, segment_bytes: int
    ) -> PausedWriter:
        writer = await self._store.create_segment(
            path, holder=holder, durability=durability, segment_bytes=segment_bytes
        )
        return PausedWriter(writer, self._clock, self._pause_s)


class PausedWriter:
    def __init__(self, writer: SegmentWriter, clock: FakeClock, pause_s: float) -> None:
        self._writer = writer
        self._clock = clock
        self._pause_s = pause_s
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, buffers: Sequence[Buffer]) -> Appended:
        self._count += 1
        if self._count == 100:
            self._clock.looked_s += self._pause_s
        return self._writer.append(buffers)


async def in_order(tmp_path: Path) -> list[Finding]:
    """A cluster on HDFS without a fault."""
    async with ScriptedServer(ScriptedHdfs().script) as server:
        subject = Subject(settings=free_settings(store=f"hdfs://{server.address}/bmq"), rest="http://10.0.0.1:8080")
        store = FakeStore().client("doctor")
        return await Examination(subject, machine(tmp_path), Random(1), FINE.transport, lambda *_: store).findings()


async def test_a_cluster_in_order_has_no_finding_and_nothing_is_left(tmp_path: Path) -> None:
    findings = await in_order(tmp_path)
    assert [finding for finding in findings if finding.verdict in (Verdict.WARNING, Verdict.ERROR)] == []
    assert exit_code(findings) == 0
    done = {finding.check for finding in findings if finding.verdict == Verdict.OK}
    assert {"appends to HDFS", "clock", "versions", "nodes", "HDFS quota", "HDFS DataNodes", "open files"} <= done


class OldStore:
    """A store that says of each directory that it was made long ago, as HDFS would."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def list_directory(self, path: str) -> tuple[FileStatus, ...]:
        return tuple(replace(entry, modified_ms=1_000) for entry in await self._store.list_directory(path))


async def test_the_probe_removes_its_file_and_what_a_killed_one_left(tmp_path: Path) -> None:
    store = FakeStore().client("doctor")
    for name in ("doctor-0000000000000001", "topics"):
        await store.make_directory(name)
    old: Any = OldStore(store)
    seen = await append_probe(old, "0000000000000002", machine(tmp_path))
    assert (len(seen.appends.latencies_ms), seen.appends.trouble) == (300, "")
    assert len(seen.appends.datanodes) == seen.appends.replicas_wanted == 3
    assert [entry.name for entry in await store.list_directory("")] == ["topics"]


async def test_appends_that_end_in_the_middle_are_told(tmp_path: Path) -> None:
    fake = FakeStore(faults=Faults(break_writer_rate=0.05))
    store = fake.client("doctor")
    seen = await append_probe(store, "0000000000000002", machine(tmp_path))
    assert 0 < len(seen.appends.latencies_ms) < 300
    assert seen.appends.trouble
    assert seen.clock is None
    assert await store.list_directory("") == ()


@dataclass(frozen=True)
class Fault:
    """`words`: of the finding that names it."""

    name: str
    check: str
    verdict: Verdict
    words: str


OF_A_CLUSTER: Final = (
    Fault("a misspelt variable", "settings", Verdict.WARNING, "BMQ_LISTEM names no setting"),
    Fault("a node's clock", "clock", Verdict.ERROR, "the clock of node 2 is 3"),
    Fault("a jump of the clock", "clock jumps", Verdict.ERROR, "jumped by 5"),
    Fault("a name without an address", "names", Verdict.ERROR, "which does not resolve here: no such name"),
    Fault("a name that means this machine", "names", Verdict.ERROR, "127.0.1.1 here"),
    Fault("a port of another program", "ports", Verdict.ERROR, "the port of rest = 127.0.0.1:"),
    Fault("an open listener", "listeners", Verdict.WARNING, "PLAINTEXT at 0.0.0.0"),
    Fault("safe mode", "HDFS safe mode", Verdict.ERROR, "is in safe mode"),
    Fault("no space in HDFS", "HDFS space", Verdict.ERROR, "1 GiB of 100 GiB are free"),
    Fault("a used up quota", "HDFS quota", Verdict.ERROR, "of its quota of space (100 %)"),
    Fault("missing blocks", "HDFS blocks", Verdict.ERROR, "7 blocks of HDFS are missing"),
    Fault("too few DataNodes", "HDFS DataNodes", Verdict.ERROR, "2 DataNodes are live, and hdfs.replication is 3"),
    Fault("a hung ZooKeeper", "ZooKeeper", Verdict.ERROR, "gives no session within"),
    Fault("too few open files", "open files", Verdict.ERROR, "may have 1024 open files"),
    Fault("no memory", "memory", Verdict.ERROR, "are available"),
    Fault("swapping", "memory", Verdict.WARNING, "are swapped out"),
    Fault("a node that hangs", "nodes", Verdict.ERROR, "node 3 at b3:8080 does not answer"),
    Fault("a node with an offline partition", "nodes", Verdict.ERROR, "orders-0 is offline"),
    Fault("nodes of two releases", "versions", Verdict.WARNING, "different releases"),
)


async def test_each_fault_of_a_cluster_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMQ_LISTEM", "127.0.0.1:1")
    monkeypatch.setattr("bmq.cli.doctor.probes.zookeeper.SESSION_MAX_S", 0.1)
    root = proc(tmp_path, meminfo=MEMINFO.replace("12000000", "200000").replace("SwapTotal: 0", "SwapTotal: 9000000"))
    clock = FakeClock()
    names = {"b1": ("127.0.1.1",), "b2": ("10.0.0.2",), "127.0.0.1": ("127.0.0.1",)}

    def resolve(name: str) -> tuple[str, ...]:
        clock.off_ms = 5_000.0
        if name not in names:
            raise OSError(-2, "no such name")
        return names[name]

    planted = ScriptedHdfs(
        is_in_safe_mode=True,
        remaining_bytes=GIB,
        missing_blocks=7,
        space_quota=3 * GIB,
        heard_ms=(1_000_000, 1_000_000),
    )
    nodes = FakeNodes(
        {"b1": RELEASE, "b2": "0.0.9", "b3": RELEASE},
        clocks_off_s={"b2": 3_600.0},
        problems={"b1": ["orders-0 is offline"]},
        why={"b2": [*map(reason, ("partitions_offline", "partitions_not_started")), reason("loop_stalled", "warning")]},
        deaf=frozenset({"b3"}),
    )
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(ScriptedServer(planted.script))
        taken = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        mute = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        settings = free_settings(
            listen="0.0.0.0:0",
            advertised="b1:9092",
            rest=f"127.0.0.1:{taken.getsockname()[1]}",
            store=f"hdfs://{server.address}/bmq",
            zookeeper=f"127.0.0.1:{mute.getsockname()[1]}",
        )
        here = machine(root, clock, resolve=resolve, open_files_hard_limit=lambda: 1_024)
        examination = Examination(Subject(settings=settings, rest="http://b1:8080"), here, Random(1), nodes.transport)
        findings = await examination.findings()
    named = [fault for fault in OF_A_CLUSTER if is_named(fault, findings)]
    assert [fault.name for fault in OF_A_CLUSTER if fault not in named] == [], findings
    assert len(named) >= 15
    assert exit_code(findings) == 2
    told = {finding.seen: finding.to_do for finding in findings if " says: It is " in finding.seen}
    assert told == {"node 2 at b2:8080 says: It is partitions_not_started": "do something about partitions_not_started"}


def reason(code: str, severity: str = "error") -> dict[str, str]:
    """As in /v1/health."""
    return {"code": code, "severity": severity, "what": f"It is {code}.", "what_to_do": f"Do something about {code}."}


async def test_a_pause_of_a_datanode_is_named(tmp_path: Path) -> None:
    clock = FakeClock()
    async with ScriptedServer(ScriptedHdfs().script) as server:
        subject = Subject(settings=free_settings(store=f"hdfs://{server.address}/bmq"), rest="10.0.0.1:8080")
        store: Any = PausedStore(FakeStore().client("doctor"), clock, 1.2)
        findings = await Examination(
            subject, machine(tmp_path, clock), Random(1), FINE.transport, lambda *_: store
        ).findings()
    (found,) = [finding for finding in findings if finding.check == "appends to HDFS"]
    assert found.verdict == Verdict.ERROR
    assert found.seen.startswith("1 of 300 appends took 0.")
    assert "1200 ms at most" in found.seen and found.seen.endswith("paused")


OF_ONE_SERVER: Final = (
    Fault("a full disk", "data disk", Verdict.ERROR, "are free on the disk of"),
    Fault("no inodes", "data disk", Verdict.ERROR, "10000 of 1000000 files"),
    Fault("an expired certificate", "certificates", Verdict.ERROR, "ended 2 days ago"),
    Fault("a name of another machine", "names", Verdict.WARNING, "that is no address of this machine"),
    Fault("an unsynchronized clock", "clock jumps", Verdict.WARNING, "no program keeps the clock synchronized"),
)


async def test_each_fault_of_a_single_server_is_named(tmp_path: Path) -> None:
    settings = free_settings(
        data=tmp_path / "data",
        kafka={
            "listeners": "OUTSIDE://127.0.0.1:0",
            "advertised.listeners": "OUTSIDE://public:9092",
            "listener.security.protocol.map": "OUTSIDE:SSL",
            "ssl.keystore.location": str(certificate(tmp_path, -2)),
        },
    )
    here = machine(
        tmp_path,
        FakeClock(),
        disk=disk_of(free_share=0.005, files_share=0.01),
        is_own_address=lambda address: False,
        is_clock_synchronized=lambda: False,
        now_ms=lambda: datetime.datetime.now(datetime.UTC).timestamp() * 1000,
        elapsed_s=time.monotonic,
    )
    findings = await Examination(Subject(settings=settings), here, Random(1), DEAF).findings()
    assert [fault.name for fault in OF_ONE_SERVER if not is_named(fault, findings)] == [], findings
    assert not (tmp_path / "data").exists(), "the doctor makes nothing"


async def test_a_check_that_hangs_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.cli.doctor.examination.QUICK_MAX_S", 0.1)
    stuck, done = asyncio.Event(), asyncio.get_running_loop()

    def hang(_: Path) -> Any:
        asyncio.run_coroutine_threadsafe(stuck.wait(), done).result()
        raise OSError("gone")

    monkeypatch.setattr("bmq.cli.doctor.examination.ANSWERS_MAX_S", 0.1)
    settings = free_settings(data=tmp_path)
    findings = await Examination(Subject(settings=settings), machine(tmp_path, disk=hang), Random(1), DEAF).findings()
    stuck.set()
    (found,) = [finding for finding in findings if finding.check == "data disk"]
    assert (found.verdict, found.seen) == (Verdict.ERROR, "the check did not end within 0.1 s")


DEAF: Final = FakeNodes({}, deaf=frozenset({"127.0.0.1"})).transport


def is_named(fault: Fault, findings: Sequence[Finding]) -> bool:
    return any(
        (finding.check, finding.verdict) == (fault.check, fault.verdict)
        and fault.words in finding.seen
        and finding.to_do
        for finding in findings
    )
