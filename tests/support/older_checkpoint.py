"""Puts a NameNode back to a checkpoint that was copied before: what an operator does who has lost the newer one."""

from __future__ import annotations

import shutil
from pathlib import Path

from bmq.dev.hdfs import HdfsCluster
from tests.support.page_commands import run_commands

SAVE = "hdfs dfsadmin -safemode enter && hdfs dfsadmin -saveNamespace && hdfs dfsadmin -safemode leave"


def copy_checkpoint(cluster: HdfsCluster, tools: Path, copy: Path) -> None:
    """Save the namespace of the only NameNode, and copy what it has on its disk."""
    run_commands(SAVE, tools)
    shutil.copytree(_name_directory(cluster), copy)


async def put_back(cluster: HdfsCluster, copy: Path) -> None:
    """Start the NameNode with the copy, after its end. DataNodes keep what they have."""
    namenode = cluster.namenode(0)
    if namenode.is_running:
        await namenode.kill()
    shutil.rmtree(_name_directory(cluster))
    shutil.copytree(copy, _name_directory(cluster))
    await namenode.start()


def _name_directory(cluster: HdfsCluster) -> Path:
    return cluster.directory / cluster.plan.namenodes[0].name / "name"
