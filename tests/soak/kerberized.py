"""The HDFS of a soak with Kerberos: tickets of two minutes and block tokens of one, so that all of them end many times."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final

from bmq.dev.hadoop_configuration import ClusterPlan, KerberosPlan
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.kdc import NAME
from bmq.dev.ports import HOST, pick_ports
from bmq.dev.secure_hadoop import HOST_NAME, WireProtection
from bmq.dev.secure_hdfs import Realm, SecureHdfsCluster
from bmq.hdfs.authentication import Authentication
from bmq.hdfs.config import Address
from bmq.hdfs.sasl.gss import hdfs_login
from bmq.hdfs.sasl.logins import KerberosAuthentication
from bmq.hdfs.security import HadoopSecurity, Protection
from testing.kdc import install_kdc, used_here
from testing.processes import JARS

TICKET_LIFE_S: Final = 120
SHORT_TOKENS: Final = {"dfs.block.access.key.update.interval": "1", "dfs.block.access.token.lifetime": "1"}
# Data is encrypted. Calls are not: a proxy has to tell which ones to keep back.
PROTECTION: Final = WireProtection(rpc=Protection.AUTHENTICATION, data=Protection.PRIVACY, is_aes=True)


class KerberizedHdfs:
    """Not started. `hdfs`: its daemons. `properties`: Hadoop's, besides."""

    def __init__(self, directory: Path, datanodes: int, properties: Mapping[str, str]) -> None:
        install_kdc()
        kdc_port, *ports = pick_ports(HOST, 1 + 2 + 3 * datanodes, Random())
        kerberos = KerberosPlan(NAME, Address(HOST, kdc_port))
        self._realm = Realm(directory.resolve(), kerberos, protection=PROTECTION, ticket_life_s=TICKET_LIFE_S)
        self.hdfs = HdfsCluster(
            directory,
            JARS / "hadoop",
            properties={**properties, **self._realm.daemon_properties, **SHORT_TOKENS},
            jvm_properties=self._realm.jvm_properties,
            plan=replace(ClusterPlan.of_ports(tuple(ports), namenodes=1, datanodes=datanodes), kerberos=kerberos),
        )
        self._cluster = SecureHdfsCluster(self._realm, self.hdfs)

    @property
    def namenode(self) -> Address:
        """By the name that a login goes by."""
        return by_name(self.hdfs.namenodes[0])

    @property
    def login(self) -> Authentication:
        """At the NameNode."""
        principal, keytab = self._realm.principal, str(self._realm.keytab)
        security = HadoopSecurity.of(self._realm.client_properties, principal=principal, keytab=keytab)
        assert security is not None
        return KerberosAuthentication(security, hdfs_login(principal, keytab))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """This process, and those that it starts, log in to it meanwhile."""
        await self._cluster.start()
        try:
            settings = {f"BMQ_HDFS__{name.upper()}": value for name, value in self._cluster.client_settings.items()}
            with used_here(self._realm.kdc, **self._cluster.environment, **settings):
                yield
        finally:
            await self._cluster.stop()


def by_name(address: Address) -> Address:
    return address._replace(host=HOST_NAME)
