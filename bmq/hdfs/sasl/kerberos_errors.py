"""The store error of a failed login by Kerberos, with HDFS's names of the settings. Pure."""

from __future__ import annotations

from typing import Final

from bmq.hdfs.errors import AuthenticationRequired
from bmq.log.store import StorageUnavailable, StoreError
from bmq.security.kerberos.faults import KerberosFault, LoginSettings

HDFS_LOGIN: Final = LoginSettings(
    service="HDFS",
    principal="hdfs.principal",
    keytab="hdfs.keytab",
    server_name="the host name in the store's URL or dfs.namenode.kerberos.principal",
    server_realm="dfs.namenode.kerberos.principal",
)


def kerberos_error(fault: KerberosFault) -> StoreError:
    """StorageUnavailable if the failure may pass, else AuthenticationRequired."""
    return StorageUnavailable(fault.sentence) if fault.is_passing else AuthenticationRequired(fault.sentence)
