"""A real HDFS for tests: started once for all tests that only use it, and afresh for those that hurt its daemons."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol, TypeVar
from weakref import WeakKeyDictionary

from bmq.dev.hadoop_configuration import LOCAL_READERS, QUICK_PROPERTIES
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.http_get import http_get
from bmq.dev.namenode_status import NoStatus, jmx_bean
from bmq.hdfs.blocks import FileBlocks
from bmq.hdfs.config import Address, HdfsConfig
from testing.free_ports import started_on_free_ports
from testing.patience import Patience
from testing.processes import JARS
from testing.shared_daemons import shared_hdfs

HADOOP_JARS = JARS / "hadoop"
USER = "bmq"

# For `config_of` where no timeout is the subject: a healthy daemon on a busy machine may stand still for seconds, and with
# the usual settings it would be left out, or the call given up.
PATIENT: Final[Mapping[str, float]] = {
    "connect_timeout_s": 10.0,
    "ack_timeout_s": 15.0,
    "read_timeout_s": 20.0,
    "rpc_timeout_s": 20.0,
    "retry_max_s": 60.0,
}
# Where a node is paused: each look at it costs a test the whole of connect_timeout_s.
PATIENT_WITH_PAUSED: Final[Mapping[str, float]] = {**PATIENT, "connect_timeout_s": 4.0}

T = TypeVar("T")


class SecureAccess(Protocol):
    """How clients reach a kerberized cluster. `url`: by host name; `environment`: of a server's process."""

    @property
    def url(self) -> str: ...

    @property
    def environment(self) -> Mapping[str, str]: ...

    def config(self, root: str) -> HdfsConfig: ...


SECURED: Final[WeakKeyDictionary[HdfsCluster, SecureAccess]] = WeakKeyDictionary()
"""Clusters that want a login, so that the tests of open clusters run on them as they are."""


def outside_any_loop(order: Coroutine[None, None, T]) -> T:
    """Run one order to a cluster in the calling thread, on a loop of its own that leaves no trace.

    A cluster is started from the main thread this way, because its daemons die with the thread that started them.
    """
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(order)
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def until(condition: Callable[[], Awaitable[bool]], timeout_s: float, what: str) -> None:
    """Return once it is so. Raises AssertionError after `timeout_s` of patience."""
    patience = Patience(timeout_s)
    try:
        async with asyncio.timeout(patience.limit_s):
            while True:
                if await condition():
                    patience.note()
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {patience.limit_s:.0f} s: {what}") from None


def new_cluster(
    directory: Path, *, datanodes: int = 3, is_ha: bool = False, local_reader: str = "", **properties: str
) -> HdfsCluster:
    """A cluster that is not started. `local_reader`: who may read the DataNodes' files. `properties`: Hadoop's, with `__`
    for `.`, over the quick ones.
    """
    given = {name.replace("__", "."): value for name, value in properties.items()}
    return HdfsCluster(
        directory,
        HADOOP_JARS,
        datanodes=datanodes,
        is_ha=is_ha,
        properties={**QUICK_PROPERTIES, LOCAL_READERS: local_reader, **given},
    )


@contextmanager
def running(cluster: HdfsCluster) -> Iterator[HdfsCluster]:
    """Start it, and end it however the tests ended."""
    outside_any_loop(cluster.start())
    try:
        yield cluster
    finally:
        outside_any_loop(cluster.stop())


@contextmanager
def shared(directory: Callable[[], Path], **wishes: int) -> Iterator[HdfsCluster]:
    """The run's, which all its processes share; without one, a new one in `directory()`, with `wishes` for `new_cluster`."""
    if there := shared_hdfs():
        yield there
        return
    cluster = started_on_free_ports(lambda: new_cluster(directory(), **wishes), outside_any_loop)  # type: ignore[arg-type]
    try:
        yield cluster
    finally:
        outside_any_loop(cluster.stop())


async def until_replicated(blocks: Callable[[], Awaitable[FileBlocks]]) -> None:
    """Wait until the NameNode knows three replicas of each block of a closed file: DataNodes report behind the close."""

    async def is_told() -> bool:
        found = (await blocks()).blocks
        return bool(found) and all(len(block.nodes) == 3 for block in found)

    await until(is_told, 30.0, "the NameNode knows all replicas")


async def is_heard(cluster: HdfsCluster, transfer: Address) -> bool:
    """Whether the NameNode has heard of this DataNode just now, and places blocks there."""
    try:
        info = await jmx_bean(cluster.plan.namenodes[0].http, "Hadoop:service=NameNode,name=NameNodeInfo")
    except NoStatus:
        return False
    live = json.loads(info["LiveNodes"]).values()
    return any(one["xferaddr"] == str(transfer) and one["capacity"] > 0 and one["lastContact"] <= 1 for one in live)


def replicas_of(cluster: HdfsCluster, content: bytes) -> list[Path]:
    """The files on the DataNodes' disks that hold exactly these bytes. Others may vanish while they are looked at."""
    found = []
    for directory, _, names in os.walk(cluster.directory):
        for name in names:
            if name.startswith("blk_") and not name.endswith(".meta"):
                with suppress(FileNotFoundError):
                    path = Path(directory, name)
                    if path.read_bytes() == content:
                        found.append(path)
    return found


async def reserved_bytes(cluster: HdfsCluster) -> list[int]:
    """What each DataNode sets aside for replicas that are being written."""
    found = []
    for node in cluster.plan.datanodes:
        answer = json.loads(await http_get(node.http, "/jmx?qry=Hadoop:service=DataNode,name=DataNodeInfo"))
        volumes = json.loads(answer["beans"][0]["VolumeInfo"])
        found.append(sum(volume["reservedSpaceForReplicas"] for volume in volumes.values()))
    return found


def config_of(cluster: HdfsCluster, root: str, user: str = USER, **settings: Any) -> HdfsConfig:
    """How a store finds its files under `root` in this cluster, and logs in where that is needed. `user`: of an open one."""
    access = SECURED.get(cluster)
    config = HdfsConfig(namenodes=cluster.namenodes, root=root, user=user) if access is None else access.config(root)
    return replace(config, **settings)


def fresh_root(test_name: str, random: Random | None = None) -> str:
    """An absolute HDFS path nobody else uses; it does not exist yet."""
    name = re.sub(r"[^a-z0-9_]+", "-", test_name.lower()).strip("-")[:60]
    return f"/{name}-{(random or Random()).randrange(16**8):08x}"
