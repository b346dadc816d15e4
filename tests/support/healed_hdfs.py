"""An HDFS whose daemons tests kill, hang and restart, one test after the other: healed behind each, in place of a new one.

A new cluster is five processes of Java, a daemon that was killed is one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Final

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.namenode import NameNode
from testing.free_ports import started_on_free_ports
from testing.hdfs import PATIENT, config_of, is_heard, new_cluster, outside_any_loop, until

HEARD_WAIT_S: Final = 60.0


class HealedHdfs:
    """`directory()`: a new one for each cluster. Its NameNode and its DataNodes all run when it is lent."""

    def __init__(self, directory: Callable[[], Path]) -> None:
        self._directory = directory
        self._cluster: HdfsCluster | None = None

    @contextmanager
    def lent(self) -> Iterator[HdfsCluster]:
        """Raises AssertionError behind a test after which it cannot be healed; the next test gets a new one."""
        if self._cluster is None:
            self._cluster = started_on_free_ports(lambda: new_cluster(self._directory()), outside_any_loop)
        cluster = self._cluster
        try:
            yield cluster
        except BaseException:
            # What a failed test left is nobody's ground.
            self.close()
            raise
        try:
            outside_any_loop(healed(cluster))
        except Exception as error:
            self.close()
            raise AssertionError(f"HDFS does not heal after this test: {error}") from error

    def close(self) -> None:
        cluster, self._cluster = self._cluster, None
        if cluster is None:
            return
        for daemon in cluster.daemons:
            if daemon.is_paused:
                outside_any_loop(daemon.resume())
        outside_any_loop(cluster.stop())


async def healed(cluster: HdfsCluster) -> None:
    """Start what is down, let go on what is paused, delete every file, wait until each DataNode is used again."""
    for daemon in cluster.daemons:
        if daemon.is_paused:
            await daemon.resume()
        if not daemon.is_running:
            await daemon.start()
    await cluster.wait_live(len(cluster.datanodes))
    for transfer in cluster.datanodes:
        await until(lambda transfer=transfer: is_heard(cluster, transfer), HEARD_WAIT_S, f"{transfer} is used again")  # type: ignore[misc]
    namenode = NameNode(config_of(cluster, "/healed", **PATIENT), Random())  # type: ignore[arg-type]
    try:
        # Blocks of dead tests would be copied to make up for dead daemons, beside the next test.
        for entry in await namenode.listing("/"):
            await namenode.delete(f"/{entry.path.decode()}", recursive=True)
    finally:
        await namenode.close()
