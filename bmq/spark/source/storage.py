"""Opens a cluster's store read-only while its servers run: takes no lock and changes nothing."""

from __future__ import annotations

import asyncio
import getpass
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from bmq.hdfs.config import HdfsConfig, HdfsSettings
from bmq.hdfs.delegation_token import DelegationToken
from bmq.hdfs.location import is_hdfs, located
from bmq.hdfs.nameservices import nameservices_with
from bmq.hdfs.token_file import FILE_BYTES_MAX, FILE_VARIABLE, BadTokenFile, token_in_file
from bmq.log.root import RootError, read_root
from bmq.log.store import SegmentStore, StoreError
from bmq.protocol.errors import BmqError
from bmq.spark.source.driver_tokens import DriverToken, TokenDirectory

PRINCIPAL_VARIABLE: Final = "BMQ_HDFS__PRINCIPAL"
KEYTAB_VARIABLE: Final = "BMQ_HDFS__KEYTAB"
"""As for servers: who logs in, where the caller names nobody."""


class StoreUnreadable(BmqError):
    """The root cannot be read from this machine, or belongs to another cluster; the message says what to do."""


class StoreAway(StoreUnreadable):
    """The store does not answer. That may pass."""


def open_store(
    root: str,
    random: Random,
    *,
    hdfs_user: str = "",
    hdfs: HdfsSettings | None = None,
    token: DelegationToken | None = None,
) -> SegmentStore:
    """Open the store; close it at the end. `root`: hdfs://…, file:DIRECTORY or an absolute directory. Raises StoreUnreadable.

    `token`: the driver's token for executors. A kerberized HDFS accepts it in place of Kerberos.
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
    """The token by which executors log in to a kerberized HDFS; None for any other store. Raises StoreUnreadable.

    Plans share a token for a while, and the driver has it renewed (driver_tokens.py). A driver without a Kerberos login of
    its own passes on the token that its job was given, as YARN does in cluster mode.
    """
    if not is_hdfs(root):
        return None
    settings = hdfs or _login_of_environment()
    config = _hdfs_config(root, hdfs_user, settings, None)
    if config.security is None or config.security.delegation is not None:
        return None if config.security is None else config.security.delegation
    shared = TokenDirectory.shared()
    principal, keytab = settings.principal, settings.keytab
    if shared is not None:
        known = shared.newest(root, principal=principal, keytab=keytab, now_s=time.time())
        if known is not None:
            return known
    try:
        token, ends_s = await _new_token(config, random, is_renewed=shared is not None)
        now_s = time.time()
        if shared is not None and ends_s > now_s:
            one = DriverToken(
                root=root,
                principal=principal,
                keytab=keytab,
                token=token,
                made_s=now_s,
                ends_s=ends_s,
                interval_s=ends_s - now_s,
            )
            with suppress(OSError):  # a disk without room: other plans get tokens of their own
                shared.put(one)
    except (StoreError, OSError) as error:
        raise StoreUnreadable(f"there is no delegation token for the executors: {error}") from error
    return token


async def _new_token(config: HdfsConfig, random: Random, *, is_renewed: bool) -> tuple[DelegationToken, float]:
    """A token, and its end in wall time if it `is_renewed`, else 0. Raises StoreError."""
    from bmq.hdfs.namenode import NameNode
    from bmq.hdfs.server_logins import login_principal

    namenode = NameNode(config, random)
    try:
        if not is_renewed:
            return await namenode.delegation_token(), 0.0
        token = await namenode.delegation_token(renewer=await login_principal(config))
        try:
            # Only a renewal tells how long a token counts.
            return token, await namenode.renew_delegation_token(token) / 1000
        except StoreError:
            return token, 0.0  # it counts for an interval all the same
    finally:
        await namenode.close()


def renewed_end_s(one: DriverToken) -> float:
    """Have a token renewed. Returns its new end in wall time. Raises StoreUnreadable, StoreError."""
    settings = HdfsSettings(principal=one.principal, keytab=one.keytab)
    config = _hdfs_config(one.root, "", settings, None)
    if config.security is not None:  # a token renews none
        config = replace(config, security=replace(config.security, delegation=None))

    async def renewed() -> float:
        from bmq.hdfs.namenode import NameNode

        namenode = NameNode(config, Random())
        try:
            return await namenode.renew_delegation_token(one.token) / 1000
        finally:
            await namenode.close()

    return asyncio.run(renewed())


def _login_of_environment() -> HdfsSettings:
    return HdfsSettings(principal=os.environ.get(PRINCIPAL_VARIABLE, ""), keytab=os.environ.get(KEYTAB_VARIABLE, ""))


def _hdfs_config(root: str, hdfs_user: str, hdfs: HdfsSettings | None, token: DelegationToken | None) -> HdfsConfig:
    """Raises StoreUnreadable."""
    from bmq.hdfs.hadoop_site import hadoop_properties

    settings = hdfs or (HdfsSettings() if token is not None else _login_of_environment())
    try:
        hadoop = hadoop_properties(os.environ)
        config = located(root, settings, system_user=hdfs_user or spark_user(), hadoop=hadoop)
    except StoreError as error:
        raise StoreUnreadable(f"bmq.root: {error}") from None
    security = config.security
    if security is None:
        return config
    if token is None and not settings.keytab:
        token = _job_token(config, hadoop)
    return replace(config, security=replace(security, delegation=token))


def _job_token(config: HdfsConfig, hadoop: Mapping[str, str]) -> DelegationToken | None:
    """The HDFS token that Hadoop gave this job, if any. Raises StoreUnreadable."""
    path = os.environ.get(FILE_VARIABLE, "")
    if not path:
        return None
    services = {f"{one.host}:{one.port}" for one in config.namenodes}
    services |= {f"ha-hdfs:{name}" for name in nameservices_with(config.namenodes, hadoop)}
    try:
        with Path(path).open("rb") as file:
            return token_in_file(file.read(FILE_BYTES_MAX), services)
    except OSError as error:
        raise StoreUnreadable(f"{FILE_VARIABLE} names {path}, which cannot be read: {error.strerror}") from None
    except BadTokenFile as error:
        raise StoreUnreadable(f"{FILE_VARIABLE} names {path}, which {error}") from None


def spark_user() -> str:
    """The HDFS user when no option names one: HADOOP_USER_NAME, else the user who submitted the job, else the system's user.

    Spark gives executors the second in SPARK_USER, and its own file systems use it. On a node the system's user may be that
    of the node's daemon or of a container image.
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
