"""Servers of a test on its HDFS, open or kerberized."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bmq.dev.hdfs import HdfsCluster
from testing.hdfs import SECURED
from testing.servers import BmqServer


def server_on(
    cluster: HdfsCluster, directory: Path, root: str, environment: Mapping[str, str] | None = None
) -> BmqServer:
    """Not started. It logs in where the cluster wants that, and then has the extra for it."""
    access = SECURED.get(cluster)
    if access is None:
        return BmqServer(directory, environment, store=f"{cluster.url}{root}")
    told = {**access.environment, **(environment or {})}
    return BmqServer(directory, told, store=f"{access.url}{root}", has_extras=True)
