"""A kerberized HDFS, with a KDC of its own.

with secure_hdfs(directory, Protection(rpc="privacy", data="privacy")) as secure:
    config = secure.config(fresh_root("test"))
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from bmq.dev.hadoop_configuration import QUICK_PROPERTIES, configuration_xml
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.kdc import Kdc
from bmq.dev.secure_hadoop import CLIENT, NAMENODE, SERVICES, WireProtection, client_security, daemon_security
from bmq.hdfs.config import HdfsConfig, HdfsSettings
from bmq.hdfs.hadoop_site import hadoop_properties
from bmq.hdfs.location import located
from bmq.hdfs.sasl.gss import hdfs_login
from bmq.hdfs.sasl.logins import KerberosAuthentication
from bmq.hdfs.security import HadoopSecurity
from testing.free_ports import started_on_free_ports
from testing.hdfs import HADOOP_JARS, PATIENT, SECURED, outside_any_loop
from testing.kdc import running_kdc, used_here

T = TypeVar("T")

Protection = WireProtection


@dataclass(frozen=True)
class SecureHdfs:
    """Implements testing.hdfs.SecureAccess. `client_conf`: a HADOOP_CONF_DIR; `keytab`: of the principal CLIENT."""

    cluster: HdfsCluster
    kdc: Kdc
    keytab: Path
    client_conf: Path

    @property
    def principal(self) -> str:
        return self.kdc.principal(CLIENT)

    @property
    def url(self) -> str:
        """By host name, as Kerberos demands."""
        return "hdfs://" + ",".join(f"localhost:{address.port}" for address in self.cluster.namenodes)

    @property
    def environment(self) -> dict[str, str]:
        """Of a server's process."""
        return {
            "KRB5_CONFIG": str(self.kdc.krb5_conf),
            "HADOOP_CONF_DIR": str(self.client_conf),
            "BMQ_HDFS__PRINCIPAL": self.principal,
            "BMQ_HDFS__KEYTAB": str(self.keytab),
            "BMQ_HDFS__REPLICATION": str(len(self.cluster.plan.datanodes)),
        }

    def config(self, root: str, *, principal: str | None = None, keytab: str | None = None) -> HdfsConfig:
        """How a store logs in here, by its keytab unless told otherwise."""
        settings = HdfsSettings(
            principal=self.principal if principal is None else principal,
            keytab=str(self.keytab) if keytab is None else keytab,
            replication=len(self.cluster.plan.datanodes),
        )
        hadoop = hadoop_properties({**os.environ, "HADOOP_CONF_DIR": str(self.client_conf)})
        config = located(f"{self.url}{root}", settings, system_user="", hadoop=hadoop)
        return replace(config, **PATIENT)  # type: ignore[arg-type]


def secure_properties(kdc: Kdc, protection: Protection) -> dict[str, str]:
    """What its daemons have to know."""
    return daemon_security(kdc.realm, str(kdc.keytab(*SERVICES, file="services")), protection)


def admin_login(kdc: Kdc, secure: Mapping[str, str]) -> KerberosAuthentication:
    """The NameNodes' own principal is a superuser."""
    principal = kdc.principal(NAMENODE)
    security = HadoopSecurity.of(secure, principal=principal, keytab=secure["dfs.namenode.keytab.file"])
    assert security is not None
    return KerberosAuthentication(security, hdfs_login(security.principal, security.keytab))


@contextmanager
def secure_hdfs(
    directory: Path,
    protection: Protection | None = None,
    *,
    datanodes: int = 1,
    is_ha: bool = False,
    properties: Mapping[str, str] | None = None,
    ticket_life_s: int = 24 * 3600,
    before_start: Callable[[HdfsCluster], None] = lambda _: None,
) -> Iterator[SecureHdfs]:
    """A running cluster; this process uses its realm meanwhile. `properties`: Hadoop's, over all others.

    `before_start`: given the cluster of each try to start one.
    """
    protection = protection or Protection()
    names = iter(range(100))
    with running_kdc(directory, ticket_life_s=ticket_life_s) as kdc:
        secure = {**secure_properties(kdc, protection), **(properties or {})}

        def run(order: Coroutine[None, None, T]) -> T:
            with used_here(kdc):  # for the login of the administrator
                return outside_any_loop(order)

        def new() -> HdfsCluster:
            made = HdfsCluster(
                directory / f"hdfs-{next(names)}",
                HADOOP_JARS,
                datanodes=datanodes,
                is_ha=is_ha,
                properties={**QUICK_PROPERTIES, **secure},
                jvm_properties={"java.security.krb5.conf": str(kdc.krb5_conf)},
                admin_login=admin_login(kdc, secure),
            )
            before_start(made)
            return made

        cluster = started_on_free_ports(new, run)
        try:
            client_conf = directory / "client-conf"
            client_conf.mkdir()
            told = {**client_security(kdc.realm, protection), **(properties or {})}
            for name in ("core-site.xml", "hdfs-site.xml"):
                (client_conf / name).write_text(configuration_xml(told))
            with used_here(kdc):
                secured = SecureHdfs(cluster, kdc, kdc.keytab(CLIENT), client_conf)
                SECURED[cluster] = secured
                yield secured
        finally:
            outside_any_loop(cluster.stop())
