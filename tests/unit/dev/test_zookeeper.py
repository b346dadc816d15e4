"""A ZooKeeper server that is planned and not started, and what its probe makes of whoever listens there."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from random import Random

import pytest

from bmq.dev.cluster_file import BadClusterFile, ClusterFile
from bmq.dev.daemon import DaemonFailed
from bmq.dev.hadoop_configuration import ClusterPlan
from bmq.dev.ports import HOST, PortTaken, pick_ports
from bmq.dev.zookeeper import CONFIGURATION, UnknownServer, ZooKeeperPlan, ZooKeeperServer, configuration
from bmq.dev.zookeeper_probe import zookeeper_trouble
from bmq.hdfs.config import Address
from tests.unit.dev.plans import make_jars, make_java, plan_of

pytestmark = pytest.mark.unit


def test_the_plan_reads_back(tmp_path: Path) -> None:
    plan = ZooKeeperPlan.of_port(20_000)
    assert ZooKeeperPlan.of_json(json.loads(json.dumps(asdict(plan)))) == plan
    ClusterFile(plan).write(tmp_path)
    assert ClusterFile.read(tmp_path, ZooKeeperPlan) == ClusterFile(plan)


def test_another_kind_s_file_is_refused(tmp_path: Path) -> None:
    ClusterFile(plan_of()).write(tmp_path)
    with pytest.raises(BadClusterFile, match="is not a file of such a development cluster"):
        ClusterFile.read(tmp_path, ZooKeeperPlan)
    ClusterFile(ZooKeeperPlan.of_port(20_000)).write(tmp_path)
    with pytest.raises(BadClusterFile):
        ClusterFile.read(tmp_path, ClusterPlan)


def test_its_configuration(tmp_path: Path) -> None:
    lines = configuration(ZooKeeperPlan.of_port(20_000), tmp_path).splitlines()
    assert {"clientPort=20000", "clientPortAddress=127.0.0.1", "tickTime=500", f"dataDir={tmp_path / 'data'}"} <= {
        *lines
    }
    assert {"admin.enableServer=false", "4lw.commands.whitelist="} <= {*lines}


def test_a_server_that_was_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, monkeypatch)
    server = ZooKeeperServer(tmp_path / "zookeeper", make_jars(tmp_path), random=Random(3))
    assert server.daemon("zk0") is server.process
    with pytest.raises(UnknownServer, match="there is no server 'zk1'; the only one is zk0"):
        server.daemon("zk1")
    assert asyncio.run(server.roles()) == {"zk0": "?"}
    assert not (tmp_path / "zookeeper").exists()


async def test_one_that_does_not_come_up_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, monkeypatch)
    server = ZooKeeperServer(tmp_path / "zookeeper", make_jars(tmp_path))
    with pytest.raises(DaemonFailed, match=r"(?s)zk0 ended with exit code 3 while it started.*no JVM today"):
        await server.start()
    assert not server.process.is_running
    assert (server.directory / CONFIGURATION).exists()


async def test_a_port_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_java(tmp_path, monkeypatch)
    async with listening(lambda _: b"") as address:
        server = ZooKeeperServer(tmp_path / "zookeeper", make_jars(tmp_path), plan=ZooKeeperPlan.of_port(address.port))
        with pytest.raises(PortTaken, match=f"something else listens on {address}"):
            await server.start()


@asynccontextmanager
async def listening(answer: Callable[[bytes], bytes | None]) -> AsyncIterator[Address]:
    """A server that answers the first bytes of a connection and ends it; None: says nothing and keeps it."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = answer(await reader.read(1024))
        if said is None:
            await ended.wait()
        else:
            writer.write(said)
        writer.close()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield Address(*server.sockets[0].getsockname()[:2])
    finally:
        ended.set()
        server.close()


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        (struct.pack(">iiiqi16s?", 37, 0, 4000, 77, 16, bytes(16), False), None),
        (struct.pack(">iiiqi16s?", 37, 0, 0, 0, 16, bytes(16), False), "refuses a session"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no ZooKeeper"),
        (struct.pack(">i", -1), "is no ZooKeeper"),
        (struct.pack(">iii", 37, 0, 4000), "gives no session"),
        (b"", "gives no session"),
        (None, "gives no session within 0.05 s"),
    ],
)
async def test_the_probe(said: bytes | None, trouble: str | None) -> None:
    async with listening(lambda _: said) as address:
        found = await zookeeper_trouble(address, wait_s=0.05 if said is None else 5.0)
    if trouble is None:
        assert found is None
    else:
        assert found is not None
        assert trouble in found
        assert str(address) in found


async def test_the_probe_where_nobody_listens() -> None:
    (port,) = pick_ports(HOST, 1, Random())
    assert "gives no session" in (await zookeeper_trouble(Address(HOST, port)) or "")
