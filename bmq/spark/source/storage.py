"""Opens a cluster's store read-only while its servers run: takes no lock and changes nothing."""

from __future__ import annotations

import getpass
import os
from dataclasses import replace
from pathlib import Path
from random import Random

from bmq.hdfs.config import HdfsConfig, HdfsSettings
from bmq.hdfs.delegation_token import DelegationToken
from bmq.hdfs.location import is_hdfs, located
from bmq.hdfs.token_file import FILE_BYTES_MAX, FILE_VARIABLE, BadTokenFile, token_in_file
from bmq.log.root import RootError, read_root
from bmq.log.store import SegmentStore, StoreError
from bmq.protocol.errors import BmqError


class StoreUnreadable(BmqError):
    """The root cannot be read from this machine, or belongs to another cluster; the message says what to do."""


class StoreAway(StoreUnreadable):
    """The store does not answer, which may pass."""


def open_store(
    root: str,
    random: Random,
    *,
    hdfs_user: str = "",
    hdfs: HdfsSettings | None = None,
    token: DelegationToken | None = None,
) -> SegmentStore:
    """`root`: hdfs://…, file:DIRECTORY or an absolute directory. To be closed. Raises StoreUnreadable.

    `token`: the driver's for executors, which a kerberized HDFS takes in place of Kerberos.
    """
    if is_hdfs(root):
        from bmq.hdfs.store import HdfsStore

        return HdfsStore(_hdfs_config(root, hdfs_user, hdfs, token), random)
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


async def token_for_executors(
    root: str, random: Random, *, hdfs_user: str = "", hdfs: HdfsSettings | None = None
) -> DelegationToken | None:
    """What executors log in to a kerberized HDFS by; None for any other store. Raises StoreUnreadable.

    A driver that has no Kerberos login of its own, as on YARN in cluster mode, passes on the token that its job was given.
    """
    if not is_hdfs(root):
        return None
    from bmq.hdfs.namenode import NameNode

    config = _hdfs_config(root, hdfs_user, hdfs, None)
    if config.security is None or config.security.delegation is not None:
        return None if config.security is None else config.security.delegation
    namenode = NameNode(config, random)
    try:
        return await namenode.delegation_token()
    except StoreError as error:
        raise StoreUnreadable(f"there is no delegation token for the executors: {error}") from error
    finally:
        await namenode.close()


def _hdfs_config(root: str, hdfs_user: str, hdfs: HdfsSettings | None, token: DelegationToken | None) -> HdfsConfig:
    """Raises StoreUnreadable."""
    from bmq.hdfs.hadoop_site import hadoop_properties

    settings = hdfs or HdfsSettings()
    try:
        config = located(root, settings, system_user=hdfs_user or spark_user(), hadoop=hadoop_properties(os.environ))
    except StoreError as error:
        raise StoreUnreadable(f"bmq.root: {error}") from None
    security = config.security
    if security is None:
        return config
    if token is None and not settings.keytab:
        token = _job_token(config)
    return replace(config, security=replace(security, delegation=token))


def _job_token(config: HdfsConfig) -> DelegationToken | None:
    """The HDFS token that Hadoop gave this job, if any. Raises StoreUnreadable."""
    path = os.environ.get(FILE_VARIABLE, "")
    if not path:
        return None
    services = {f"{one.host}:{one.port}" for one in config.namenodes}
    try:
        with Path(path).open("rb") as file:
            return token_in_file(file.read(FILE_BYTES_MAX), services)
    except OSError as error:
        raise StoreUnreadable(f"{FILE_VARIABLE} names {path}, which cannot be read: {error.strerror}") from None
    except BadTokenFile as error:
        raise StoreUnreadable(f"{FILE_VARIABLE} names {path}, which {error}") from None


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
