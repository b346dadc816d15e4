"""A real HDFS for tests: started once for all tests that only use it, and afresh for those that hurt its daemons."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

from bmq.dev.hadoop_configuration import LOCAL_READERS, QUICK_PROPERTIES
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.http_get import http_get
from bmq.hdfs.blocks import FileBlocks
from bmq.hdfs.config import HdfsConfig
from tests.support.processes import JARS

HADOOP_JARS = JARS / "hadoop"
USER = "bmq"

T = TypeVar("T")


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
    """Return once it is so. Raises AssertionError after `timeout_s`."""
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if await condition():
                    return
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not within {timeout_s} s: {what}") from None


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


async def until_replicated(blocks: Callable[[], Awaitable[FileBlocks]]) -> None:
    """Wait until the NameNode knows three replicas of each block of a closed file: DataNodes report behind the close."""

    async def is_told() -> bool:
        found = (await blocks()).blocks
        return bool(found) and all(len(block.nodes) == 3 for block in found)

    await until(is_told, 30.0, "the NameNode knows all replicas")


async def reserved_bytes(cluster: HdfsCluster) -> list[int]:
    """What each DataNode sets aside for replicas that are being written."""
    found = []
    for node in cluster.plan.datanodes:
        answer = json.loads(await http_get(node.http, "/jmx?qry=Hadoop:service=DataNode,name=DataNodeInfo"))
        volumes = json.loads(answer["beans"][0]["VolumeInfo"])
        found.append(sum(volume["reservedSpaceForReplicas"] for volume in volumes.values()))
    return found


def config_of(cluster: HdfsCluster, root: str, user: str = USER, **settings: float) -> HdfsConfig:
    """How a store finds its files under `root` in this cluster."""
    config = HdfsConfig(namenodes=cluster.namenodes, root=root, user=user)
    return replace(config, **settings)  # type: ignore[arg-type]


def fresh_root(test_name: str, random: Random | None = None) -> str:
    """An absolute HDFS path nobody else uses; it does not exist yet."""
    name = re.sub(r"[^a-z0-9_]+", "-", test_name.lower()).strip("-")[:60]
    return f"/{name}-{(random or Random()).randrange(16**8):08x}"
