"""A real HDFS with Kerberos on this machine: an HdfsCluster with a KDC of its own.

The KDC's files and all keytabs are in `kerberos` of the cluster's directory, a configuration for clients in `client-conf`
(for HADOOP_CONF_DIR). Both are kept over a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bmq.dev.cluster import Order
from bmq.dev.daemon import Daemon
from bmq.dev.hadoop_configuration import ClusterPlan, KerberosPlan, client_properties, configuration_xml
from bmq.dev.hdfs import HdfsCluster, UnknownNode
from bmq.dev.kdc import TICKET_LIFE_S, Kdc
from bmq.dev.ports import HOST, check_free
from bmq.dev.secure_hadoop import (
    CLIENT,
    HOST_NAME,
    NAMENODE,
    SERVICES,
    WireProtection,
    by_host_name,
    client_security,
    daemon_security,
)
from bmq.hdfs.authentication import Authentication
from bmq.hdfs.security import HadoopSecurity

KERBEROS: Final = "kerberos"
CLIENT_CONF: Final = "client-conf"
_SERVICES_FILE: Final = "services"


class Realm:
    """The Kerberos of a cluster in `directory`, and what follows from it. `protection`: None: the plan's. Raises KdcMissing."""

    def __init__(
        self,
        directory: Path,
        plan: KerberosPlan,
        *,
        protection: WireProtection | None = None,
        ticket_life_s: int = TICKET_LIFE_S,
    ) -> None:
        log = directory / "log" / f"{plan.name}.log"
        self.kdc = Kdc(directory / KERBEROS, port=plan.kdc.port, log=log, ticket_life_s=ticket_life_s)
        self.protection = protection or WireProtection.of(plan.protection, is_encrypted=plan.is_encrypted)

    @property
    def daemon_properties(self) -> dict[str, str]:
        return daemon_security(self.kdc.realm, str(self.kdc.keytab_path(_SERVICES_FILE)), self.protection)

    @property
    def client_properties(self) -> dict[str, str]:
        return client_security(self.kdc.realm, self.protection)

    @property
    def jvm_properties(self) -> dict[str, str]:
        return {"java.security.krb5.conf": str(self.kdc.krb5_conf)}

    @property
    def principal(self) -> str:
        """The user's."""
        return self.kdc.full(CLIENT)

    @property
    def keytab(self) -> Path:
        """The user's."""
        return self.kdc.keytab_path(CLIENT)

    def admin_login(self) -> Authentication:
        """The NameNodes' own principal is a superuser."""
        # Open clusters do without these modules.
        from bmq.hdfs.sasl.gss import hdfs_login
        from bmq.hdfs.sasl.logins import KerberosAuthentication

        principal, keytab = self.kdc.full(NAMENODE), str(self.kdc.keytab_path(_SERVICES_FILE))
        security = HadoopSecurity.of(self.daemon_properties, principal=principal, keytab=keytab)
        assert security is not None
        return KerberosAuthentication(security, hdfs_login(security.principal, security.keytab))

    def make_keytabs(self) -> None:
        """Those that are missing, while the realm is there. Raises KdcFailed."""
        for path, names in ((self.keytab, (CLIENT,)), (self.kdc.keytab_path(_SERVICES_FILE), SERVICES)):
            if not path.exists():
                self.kdc.keytab(*names, file=path.stem)


class SecureHdfsCluster:
    """`hdfs`: made with `realm`'s properties, not started. Implements bmq.dev.cluster.DevCluster."""

    def __init__(self, realm: Realm, hdfs: HdfsCluster) -> None:
        self.directory = hdfs.directory
        self.realm = realm
        self.hdfs = hdfs

    async def start(self) -> None:
        """The KDC first. On failure nothing is left running. Raises KdcFailed, and the errors of HdfsCluster.start."""
        kerberos = self.plan.kerberos
        assert kerberos is not None
        check_free(kerberos.addresses)
        try:
            await self.realm.kdc.start()
            self.realm.make_keytabs()
            self._write_client_configuration()
            await self.hdfs.start()
        except BaseException:
            await self.realm.kdc.daemon.kill()
            raise

    async def stop(self) -> None:
        """End all daemons in order; the files stay."""
        try:
            await self.hdfs.stop()
        finally:
            await self.realm.kdc.stop()

    @property
    def plan(self) -> ClusterPlan:
        return self.hdfs.plan

    @property
    def url(self) -> str:
        """For `--store`, without a directory, by host name: `hdfs://localhost:8020`."""
        return f"hdfs://{','.join(f'{HOST_NAME}:{address.port}' for address in self.hdfs.namenodes)}"

    @property
    def client_settings(self) -> Mapping[str, str]:
        """Settings for a server's table `[hdfs]`."""
        return {"principal": self.realm.principal, "keytab": str(self.realm.keytab)}

    @property
    def environment(self) -> dict[str, str]:
        """For clients: bmq, Hadoop's own, and MIT's."""
        return {"KRB5_CONFIG": str(self.realm.kdc.krb5_conf), "HADOOP_CONF_DIR": str(self.directory / CLIENT_CONF)}

    @property
    def daemons(self) -> tuple[Daemon, ...]:
        return (self.realm.kdc.daemon, *self.hdfs.daemons)

    def daemon(self, name: str) -> Daemon:
        """By name: `kdc`, `nn0`. Raises UnknownNode."""
        for daemon in self.daemons:
            if daemon.name == name:
                return daemon
        known = ", ".join(daemon.name for daemon in self.daemons)
        raise UnknownNode(f"there is no node {name!r}; this cluster has {known}")

    @property
    def special_orders(self) -> Mapping[str, Order]:
        return self.hdfs.special_orders

    async def roles(self) -> Mapping[str, str]:
        return {**await self.hdfs.roles(), self.realm.kdc.daemon.name: self.realm.kdc.realm}

    def _write_client_configuration(self) -> None:
        directory = self.directory / CLIENT_CONF
        directory.mkdir(exist_ok=True)
        told = {**by_host_name(client_properties(self.plan), HOST), **self.realm.client_properties}
        for name in ("core-site.xml", "hdfs-site.xml"):
            (directory / name).write_text(configuration_xml(told))
