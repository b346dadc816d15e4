"""What daemons and clients of a kerberized development cluster have to know, as Hadoop's properties. Pure.

The principals are `nn/localhost`, `dn/localhost` and `HTTP/localhost` of one realm; clients name servers by `localhost`,
because Kerberos goes by host names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bmq.hdfs.security import AES_SUITE, Protection

HOST_NAME: Final = "localhost"
CLIENT: Final = "bmq"
NAMENODE: Final = f"nn/{HOST_NAME}"
DATANODE: Final = f"dn/{HOST_NAME}"
WEB: Final = f"HTTP/{HOST_NAME}"
SERVICES: Final = (NAMENODE, DATANODE, WEB)


@dataclass(frozen=True)
class WireProtection:
    """`rpc`: hadoop.rpc.protection; `data`: dfs.data.transfer.protection, empty: not set. `is_aes`: the data's cipher is
    AES-CTR; `is_encrypted`: dfs.encrypt.data.transfer."""

    rpc: str = Protection.AUTHENTICATION.value
    data: str = Protection.AUTHENTICATION.value
    is_aes: bool = False
    is_encrypted: bool = False

    @classmethod
    def of(cls, protection: Protection, *, is_encrypted: bool) -> WireProtection:
        """The same for RPC and data, encrypted data by AES-CTR."""
        is_aes = is_encrypted or protection is Protection.PRIVACY
        return cls(protection.value, protection.value, is_aes=is_aes, is_encrypted=is_encrypted)

    @property
    def properties(self) -> dict[str, str]:
        found = {"hadoop.rpc.protection": self.rpc}
        if self.data:
            found["dfs.data.transfer.protection"] = self.data
        if self.is_aes:
            found["dfs.encrypt.data.transfer.cipher.suites"] = AES_SUITE
        if self.is_encrypted:
            found["dfs.encrypt.data.transfer"] = "true"
        return found


def client_security(realm: str, protection: WireProtection) -> dict[str, str]:
    """For clients. As on real clusters, `_HOST` stands for the name that a client dials."""
    return {
        "hadoop.security.authentication": "kerberos",
        "dfs.namenode.kerberos.principal": f"nn/_HOST@{realm}",
        "dfs.datanode.kerberos.principal": f"{DATANODE}@{realm}",
        **protection.properties,
    }


def daemon_security(realm: str, keytab: str, protection: WireProtection) -> dict[str, str]:
    """For daemons. `keytab`: a file with the keys of SERVICES."""
    return {
        **client_security(realm, protection),
        "dfs.block.access.token.enable": "true",
        "dfs.namenode.kerberos.principal": f"{NAMENODE}@{realm}",
        "dfs.namenode.keytab.file": keytab,
        "dfs.datanode.keytab.file": keytab,
        "dfs.web.authentication.kerberos.principal": f"{WEB}@{realm}",
        "dfs.web.authentication.kerberos.keytab": keytab,
        # The web servers need no TLS then, and DataNodes no ports below 1024.
        "ignore.secure.ports.for.testing": "true",
        # The principals are no users of this machine. bmq's may do everything: it is the cluster's only user.
        "hadoop.user.group.static.mapping.overrides": f"{CLIENT}=supergroup;nn=supergroup;dn=supergroup;HTTP=supergroup",
    }


def by_host_name(properties: Mapping[str, str], host: str) -> dict[str, str]:
    """The properties with HOST_NAME for this machine's address."""
    return {name: value.replace(f"{host}:", f"{HOST_NAME}:") for name, value in properties.items()}
