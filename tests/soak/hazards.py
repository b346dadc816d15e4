"""What both soaks do to HDFS beyond killing and pausing its daemons."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from bmq.dev.daemon import WrongDaemonState
from bmq.dev.hdfs import HdfsCluster
from tests.support.unsafe_disk import UnsafeDisk

# Of the calls that change something, while calls are late. A call is given up after ten seconds.
LATE_SHARE: Final = 0.15
LATE_S: Final = (1.0, 30.0)
# Where power is lost, what is acknowledged has to lie on disks, that of groups as well.
HSYNC: Final[Mapping[str, str]] = {"bmq.durability": "hsync"}


def disks_of(cluster: HdfsCluster) -> tuple[UnsafeDisk, ...]:
    """One for each DataNode, mounted where it keeps everything; not made yet."""
    return tuple(
        UnsafeDisk(cluster.directory.with_name(f"{node.name}.disk"), cluster.directory / node.name)
        for node in cluster.plan.datanodes
    )


async def lose_power(cluster: HdfsCluster, disks: Sequence[UnsafeDisk], lasts_s: float) -> None:
    """All DataNodes at once, and all that they did not sync; they run again when this returns.

    They stand still before their disks are cut, as a machine does: a sync that is under way when the kernel shuts a file
    system down may succeed without a trace on the disk, and a node that still runs would acknowledge what it synced.
    """
    nodes = [cluster.datanode(number) for number in range(len(disks))]
    for node in nodes:
        with suppress(WrongDaemonState):  # another fault ended it
            await node.pause()
    for disk in disks:
        disk.cut()
    for node in nodes:
        await node.kill()
    # In this thread, the main one: mounts may be its own.
    for disk in disks:
        disk.restore()
    await asyncio.sleep(lasts_s)
    for node in nodes:
        await node.start()
