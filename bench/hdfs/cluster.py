"""The HDFS the benchmark runs on: its own, whose DataNodes it may hurt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import psutil

from bmq.dev.class_archive import ClassArchive
from bmq.dev.hadoop_configuration import LOCAL_READERS
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.java import STEADY_JVM_OPTIONS
from bmq.hdfs.config import Address
from testing.processes import JARS

DATANODES: Final = 3
HEAP_MB: Final = 512
# Hadoop's own settings but one: of three DataNodes, one with a few more connections than the others counts as too busy,
# and a file then gets two replicas.
PROPERTIES: Final = {"dfs.namenode.redundancy.considerLoad": "false"}


def default_heap_mb() -> int:
    """What a JVM takes that is told nothing: a quarter of the memory."""
    return int(psutil.virtual_memory().total // 4 // 2**20)


class BenchCluster:
    """`namenode`: by the name that clients shall use; None: by its address."""

    def __init__(self, cluster: HdfsCluster, namenode: Address | None = None) -> None:
        self.namenode: Address = namenode or cluster.namenodes[0]
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


def hdfs_cluster(directory: Path, *, is_jvm_default: bool, local_reader: str = "") -> HdfsCluster:
    """Not started yet. `is_jvm_default`: no heap and no collector is chosen for its daemons. `local_reader`: who may read
    the DataNodes' files.
    """
    return HdfsCluster(
        directory,
        JARS / "hadoop",
        datanodes=DATANODES,
        properties={**PROPERTIES, LOCAL_READERS: local_reader},
        heap_mb=default_heap_mb() if is_jvm_default else HEAP_MB,
        jvm_options=_jvm_options(is_jvm_default),
    )


def is_first_of_its_kind(*, is_jvm_default: bool) -> bool:
    """Whether daemons that start now would list their classes for an archive that all later ones use: those are not the ones
    to measure.
    """
    return not ClassArchive(JARS / "hadoop", _jvm_options(is_jvm_default)).is_there


def _jvm_options(is_jvm_default: bool) -> tuple[str, ...]:
    """JVMs that compile as those of a real cluster do."""
    return () if is_jvm_default else STEADY_JVM_OPTIONS


@asynccontextmanager
async def bench_cluster(directory: Path, *, is_jvm_default: bool = False) -> AsyncIterator[BenchCluster]:
    """A cluster in `directory`."""
    if is_first_of_its_kind(is_jvm_default=is_jvm_default):
        async with hdfs_cluster(directory.with_name(f"{directory.name}-first"), is_jvm_default=is_jvm_default):
            pass
    cluster = hdfs_cluster(directory, is_jvm_default=is_jvm_default)
    async with cluster:
        yield BenchCluster(cluster)
