"""The HDFS the benchmark runs on: its own, whose DataNodes it may hurt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psutil

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.java import STEADY_JVM_OPTIONS
from bmq.hdfs.config import Address
from tests.support.processes import JARS

DATANODES: Final = 3
HEAP_MB: Final = 512
# Hadoop's own settings but one: of three DataNodes, one with a few more connections than the others counts as too busy,
# and a file then gets two replicas.
PROPERTIES: Final = {"dfs.namenode.redundancy.considerLoad": "false"}


def default_heap_mb() -> int:
    """What a JVM takes that is told nothing: a quarter of the memory."""
    return int(psutil.virtual_memory().total // 4 // 2**20)


class BenchCluster:
    def __init__(self, cluster: HdfsCluster) -> None:
        self.namenode: Address = cluster.namenodes[0]
        self.datanode_count = DATANODES
        self._cluster = cluster

    async def kill_datanode(self, index: int) -> None:
        await self._cluster.datanode(index).kill()

    async def restart_datanode(self, index: int) -> None:
        await self._cluster.datanode(index).restart()

    async def pause_datanode(self, index: int) -> None:
        await self._cluster.datanode(index).pause()

    async def resume_datanode(self, index: int) -> None:
        await self._cluster.datanode(index).resume()

    async def wait_until_live(self) -> None:
        await self._cluster.wait_live(DATANODES)


@asynccontextmanager
async def bench_cluster(directory: Path, *, is_jvm_default: bool = False) -> AsyncIterator[BenchCluster]:
    """A cluster in `directory`. `is_jvm_default`: no heap and no collector is chosen for its daemons."""
    # JVMs that compile as those of a real cluster do.
    cluster = HdfsCluster(
        directory,
        JARS / "hadoop",
        datanodes=DATANODES,
        properties=PROPERTIES,
        heap_mb=default_heap_mb() if is_jvm_default else HEAP_MB,
        jvm_options=() if is_jvm_default else STEADY_JVM_OPTIONS,
    )
    async with cluster:
        yield BenchCluster(cluster)
