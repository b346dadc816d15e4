"""Opens a cluster's store read-only while its servers run: takes no lock and changes nothing."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from random import Random

from bmq.hdfs.config import HdfsSettings
from bmq.hdfs.location import is_hdfs, located
from bmq.log.root import RootError, read_root
from bmq.log.store import SegmentStore, StoreError
from bmq.protocol.errors import BmqError


class StoreUnreadable(BmqError):
    """The root cannot be read from this machine, or belongs to another cluster; the message says what to do."""


class StoreAway(StoreUnreadable):
    """The store does not answer, which may pass."""


def open_store(root: str, random: Random, *, hdfs_user: str = "", hdfs: HdfsSettings | None = None) -> SegmentStore:
    """`root`: hdfs://…, file:DIRECTORY or an absolute directory. To be closed. Raises StoreUnreadable."""
    if is_hdfs(root):
        from bmq.hdfs.hadoop_site import hadoop_properties
        from bmq.hdfs.store import HdfsStore

        try:
            config = located(
                root,
                hdfs or HdfsSettings(),
                system_user=hdfs_user or spark_user(),
                hadoop=hadoop_properties(os.environ),
            )
        except StoreError as error:
            raise StoreUnreadable(f"bmq.root: {error}") from None
        return HdfsStore(config, random)
    path = Path(root.removeprefix("file:").removeprefix("//"))
    if not path.is_absolute() or ":" in root.removeprefix("file:"):
        raise StoreUnreadable(f"bmq.root is {root!r}: it is hdfs://NAMENODE:PORT/DIRECTORY or file:/DIRECTORY")
    if not path.is_dir():
        raise StoreUnreadable(
            f"the log's directory {path} is not on this machine: name the store with the option bmq.root,"
            " or read all through the proxies with bmq.root=none"
        )
    from bmq.local_store.store import LocalStore

    return LocalStore(path, is_root_locked=False)


def spark_user() -> str:
    """The HDFS user when no option names one: HADOOP_USER_NAME, else who submitted the job, else the system's user.

    Spark tells executors the second in SPARK_USER, and its own file systems go by it: the system's user on a node may be
    that of the node's daemon or of a container image.
    """
    return os.environ.get("HADOOP_USER_NAME") or os.environ.get("SPARK_USER") or getpass.getuser()


async def require_cluster(store: SegmentStore, root: str, cluster_id: str) -> None:
    """Check that the store is this cluster's. Raises StoreUnreadable, StoreAway."""
    try:
        found = await read_root(store)
    except RootError as error:
        raise StoreUnreadable(f"the store {root} cannot be used: {error}; set the option bmq.root") from None
    except StoreError as error:
        raise StoreAway(
            f"the store {root} cannot be read from here: {error}; name it with the option bmq.root as this machine"
            " reaches it, or read all through the proxies with bmq.root=none"
        ) from error
    if found.cluster_id != cluster_id:
        raise StoreUnreadable(
            f"the store {root} belongs to cluster {found.cluster_id}, and the servers to {cluster_id}: correct bmq.root"
        )
