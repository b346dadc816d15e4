"""The login for each server: the user's name on an open cluster, else Kerberos, a delegation token or a block's token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.hdfs.authentication import Authentication, SimpleAuthentication
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.delegation_token import KIND
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.security import BadSecurity

if TYPE_CHECKING:
    from bmq.security.kerberos.login import KerberosLogin


def namenode_authentication(config: HdfsConfig) -> Authentication:
    """The authentication for NameNodes. Raises BadSecurity: the package for Kerberos is missing."""
    security = config.security
    if security is None:
        return SimpleAuthentication(config.user)
    # Open clusters do without these modules.
    from bmq.hdfs.sasl.gss import hdfs_login, require_gssapi
    from bmq.hdfs.sasl.logins import KerberosAuthentication, TokenAuthentication

    if security.delegation is not None:
        delegation = security.delegation
        token = Token(identifier=delegation.identifier, password=delegation.password, kind=KIND, service="")
        return TokenAuthentication(token, security.rpc)
    require_gssapi()
    return KerberosAuthentication(security, hdfs_login(security.principal, security.keytab))


async def login_principal(config: HdfsConfig) -> str:
    """The principal that logs in to the NameNodes by Kerberos, NAME@REALM. Raises AuthenticationRequired, BadSecurity, StorageUnavailable."""
    from bmq.hdfs.sasl.gss import hdfs_login, login_name, require_gssapi

    security = config.security
    if security is None:
        raise BadSecurity("an open HDFS has no logins by Kerberos")
    require_gssapi()
    return await login_name(hdfs_login(security.principal, security.keytab), "HDFS")


class DataNodeLogins:
    """The logins for the RPC ports of all DataNodes of a cluster."""

    def __init__(self, config: HdfsConfig) -> None:
        self._security = config.security
        self._simple = SimpleAuthentication(config.user)
        self._kerberos: KerberosLogin | None = None

    def of(self, host: str, token: Token | None) -> Authentication:
        """The authentication for one DataNode. `host`: its machine's name. `token`: of the block in question; None: Kerberos.

        Raises BadSecurity: Kerberos is needed, and there is only a delegation token.
        """
        security = self._security
        if security is None:
            return self._simple
        from bmq.hdfs.sasl.gss import hdfs_login
        from bmq.hdfs.sasl.logins import KerberosAuthentication, TokenAuthentication

        if token is not None:
            return TokenAuthentication(token, security.rpc)
        if security.delegation is not None:
            raise BadSecurity(
                f"a call to the DataNode at {host} needs a login by Kerberos, and here is a delegation token alone"
            )
        if self._kerberos is None:
            self._kerberos = hdfs_login(security.principal, security.keytab)
        return KerberosAuthentication(security, self._kerberos, datanode_host=host)
