"""The security settings in a Hadoop cluster's configuration, as values. Pure.

The names are those of core-site.xml and hdfs-site.xml. A cluster without `hadoop.security.authentication=kerberos` is open;
then the other settings have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from bmq.dataclass import dataclass
from bmq.hdfs.delegation_token import DelegationToken
from bmq.log.store import StoreError
from bmq.security.kerberos.principals import NoHostName, server_principal

AES_SUITE: Final = "AES/CTR/NoPadding"
PRIVILEGED_PORTS: Final = 1024


class BadSecurity(StoreError):
    """Settings, or Hadoop's configuration, are unusable; one sentence. Never retried."""


class Protection(StrEnum):
    """The protection of a connection after a SASL login. `qop`: its name in SASL. `bit`: in GSSAPI's security layers."""

    AUTHENTICATION = "authentication"
    INTEGRITY = "integrity"
    PRIVACY = "privacy"

    @property
    def qop(self) -> str:
        return _QOPS[self]

    @property
    def bit(self) -> int:
        return _BITS[self]


_QOPS: Final = {Protection.AUTHENTICATION: "auth", Protection.INTEGRITY: "auth-int", Protection.PRIVACY: "auth-conf"}
_BITS: Final = {Protection.AUTHENTICATION: 1, Protection.INTEGRITY: 2, Protection.PRIVACY: 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopSecurity:
    """A kerberized cluster, and our identity there.

    `principal`: empty: that of the ticket cache. `keytab`: a path; empty: log in by the ticket cache. `rpc`: protections of
    RPC connections, in order of preference. `data`: protections of connections to DataNodes; empty: none. `is_aes`: offer
    AES-CTR for privacy. `delegation`: log in to NameNodes by this token, and never by Kerberos.
    """

    principal: str = ""
    keytab: str = ""
    namenode_principal: str = ""
    namenode_principal_pattern: str = ""
    datanode_principal: str = ""
    rpc: tuple[Protection, ...] = (Protection.AUTHENTICATION,)
    data: tuple[Protection, ...] = ()
    is_aes: bool = False
    delegation: DelegationToken | None = None

    @property
    def realm(self) -> str:
        """The realm of the NameNodes; empty: the default realm of krb5.conf."""
        named = self.namenode_principal or self.namenode_principal_pattern
        realm = named.partition("@")[2]
        return "" if any(character in realm for character in "*?[") else realm

    @classmethod
    def of(cls, hadoop: Mapping[str, str], *, principal: str, keytab: str) -> HadoopSecurity | None:
        """The security of a configuration; None for an open cluster. Raises BadSecurity."""
        kind = hadoop.get("hadoop.security.authentication", "simple").strip().lower()
        if kind == "simple":
            if principal or keytab:
                raise BadSecurity(
                    "hdfs.principal or hdfs.keytab is set, but Kerberos is not: name the directory of the cluster's"
                    " core-site.xml, with hadoop.security.authentication=kerberos, in HADOOP_CONF_DIR"
                )
            return None
        if kind != "kerberos":
            raise BadSecurity(
                f"core-site.xml: hadoop.security.authentication is {kind!r}: simple or kerberos is needed"
            )
        if keytab and not principal:
            raise BadSecurity("hdfs.keytab is set: set hdfs.principal to the principal in it, NAME@REALM")
        namenode = hadoop.get("dfs.namenode.kerberos.principal", "").strip()
        pattern = hadoop.get("dfs.namenode.kerberos.principal.pattern", "").strip()
        if not namenode and not pattern:
            raise BadSecurity(
                "hdfs-site.xml names no dfs.namenode.kerberos.principal: without it any server with a key of the realm"
                " could pass for the NameNode; HADOOP_CONF_DIR names the directory of the file"
            )
        return cls(
            principal=principal,
            keytab=keytab,
            namenode_principal=namenode,
            namenode_principal_pattern=pattern,
            datanode_principal=hadoop.get("dfs.datanode.kerberos.principal", "").strip(),
            rpc=_protections(hadoop, "hadoop.rpc.protection") or (Protection.AUTHENTICATION,),
            data=_protections(hadoop, "dfs.data.transfer.protection"),
            is_aes=_is_aes(hadoop.get("dfs.encrypt.data.transfer.cipher.suites", "")),
        )


def check_service(security: HadoopSecurity, offered: str, host: str) -> None:
    """Check the principal that a NameNode at `host` offers, `nn/host`, against the configuration. Raises BadSecurity.

    Without the check, anybody with a key of the realm could pass for the NameNode (SaslRpcClient.getServerPrincipal).
    """
    if security.namenode_principal_pattern:
        # The pattern may name the realm, which a server's offer leaves out.
        pattern = security.namenode_principal_pattern
        if not fnmatchcase(offered, pattern) and not fnmatchcase(offered, pattern.partition("@")[0]):
            raise BadSecurity(
                f"the NameNode at {host} is {offered}, which dfs.namenode.kerberos.principal.pattern"
                f" ({pattern}) does not allow"
            )
        return
    expected = service_principal(security.namenode_principal, host).partition("@")[0]
    if offered != expected:
        raise BadSecurity(
            f"the NameNode at {host} is {offered}, and dfs.namenode.kerberos.principal"
            f" ({security.namenode_principal}) demands {expected}: correct the one, or the host name in the store's URL"
        )


def service_principal(configured: str, host: str) -> str:
    """The principal with `_HOST` replaced by the host, in lower case. Raises BadSecurity for an address."""
    try:
        return server_principal(configured, host)
    except NoHostName:
        raise BadSecurity(
            f"{configured} needs the server's host name: name it in the store's URL instead of the address {host}"
        ) from None


def _protections(hadoop: Mapping[str, str], name: str) -> tuple[Protection, ...]:
    found = []
    for word in hadoop.get(name, "").split(","):
        if not word.strip():
            continue
        try:
            found.append(Protection(word.strip().lower()))
        except ValueError:
            raise BadSecurity(
                f"{name} is {hadoop[name]!r}: authentication, integrity and privacy are possible"
            ) from None
    return tuple(dict.fromkeys(found))


def _is_aes(suites: str) -> bool:
    wanted = [suite.strip() for suite in suites.split(",") if suite.strip()]
    if wanted and AES_SUITE not in wanted:
        raise BadSecurity(f"dfs.encrypt.data.transfer.cipher.suites is {suites!r}: bmq knows {AES_SUITE} alone")
    return bool(wanted)
