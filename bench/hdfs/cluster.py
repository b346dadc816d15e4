"""The HDFS a benchmark runs on: one of its own, whose DataNodes it may hurt, or one that is there and is left in peace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.java import STEADY_JVM_OPTIONS
from bmq.hdfs.config import Address
from tests.support.processes import JARS

DATANODES: Final = 3
HEAP_MB: Final = 512
# Hadoop's own settings but one: of three DataNodes, one with a few more connections than the others counts as too busy,
# and a file then gets two replicas.
PROPERTIES: Final = {"dfs.namenode.redundancy.considerLoad": "false"}


class BenchCluster:
    """`can_be_hurt`: whether DataNodes may be killed and stopped."""

    def __init__(self, namenode: Address, own: HdfsCluster | None = None) -> None:
        self.namenode = namenode
        self.datanode_count = DATANODES
        self._own = own

    @property
    def can_be_hurt(self) -> bool:
        return self._own is not None

    @property
    def own(self) -> HdfsCluster:
        assert self._own is not None, "this cluster is not ours to hurt"
        return self._own

    async def kill_datanode(self, index: int) -> None:
        await self.own.datanode(index).kill()

    async def restart_datanode(self, index: int) -> None:
        await self.own.datanode(index).restart()

    async def pause_datanode(self, index: int) -> None:
        await self.own.datanode(index).pause()

    async def resume_datanode(self, index: int) -> None:
        await self.own.datanode(index).resume()

    async def wait_until_live(self) -> None:
        await self.own.wait_live(DATANODES)


@asynccontextmanager
async def bench_cluster(directory: Path, namenode: Address | None) -> AsyncIterator[BenchCluster]:
    """A cluster of its own in `directory`, unless `namenode` names one."""
    if namenode is not None:
        yield BenchCluster(namenode)
        return
    # JVMs that compile as those of a real cluster do.
    cluster = HdfsCluster(
        directory,
        JARS / "hadoop",
        datanodes=DATANODES,
        properties=PROPERTIES,
        heap_mb=HEAP_MB,
        jvm_options=STEADY_JVM_OPTIONS,
    )
    async with cluster:
        yield BenchCluster(cluster.namenodes[0], cluster)
