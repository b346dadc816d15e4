"""The HDFS with Kerberos that the benchmark runs on, beside the open one of bench.hdfs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from bench.hdfs.client import KEYTAB, PRINCIPAL
from bench.hdfs.cluster import DATANODES, HEAP_MB, PROPERTIES, BenchCluster
from bench.hdfs.contender import JVM_OPTIONS
from bmq.dev.hadoop_configuration import ClusterPlan, KerberosPlan
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.java import STEADY_JVM_OPTIONS
from bmq.dev.kdc import NAME
from bmq.dev.ports import HOST, pick_ports
from bmq.dev.secure_hadoop import HOST_NAME
from bmq.dev.secure_hdfs import Realm, SecureHdfsCluster
from bmq.hdfs.config import Address
from bmq.hdfs.security import Protection
from testing.kdc import install_kdc
from testing.processes import JARS


@dataclass(frozen=True, slots=True)
class Site:
    """Where a client goes, and what it has to know there. `environment`: variables of its process."""

    cluster: BenchCluster
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def namenode(self) -> Address:
        return self.cluster.namenode

    @property
    def jvm_options(self) -> tuple[str, ...]:
        krb5_conf = self.environment.get("KRB5_CONFIG")
        return (*JVM_OPTIONS, *((f"-Djava.security.krb5.conf={krb5_conf}",) if krb5_conf else ()))

    @contextmanager
    def used_here(self) -> Iterator[None]:
        """This process, and those that it starts, are clients of the site."""
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


@asynccontextmanager
async def secure_site(directory: Path, protection: Protection) -> AsyncIterator[Site]:
    """A cluster in `directory` with a Kerberos server of its own. `protection`: of calls and data, the latter by AES-CTR."""
    install_kdc()
    kdc_port, *ports = pick_ports(HOST, 1 + 2 + 3 * DATANODES, Random())
    kerberos = KerberosPlan(NAME, Address(HOST, kdc_port), protection=protection)
    plan = replace(ClusterPlan.of_ports(tuple(ports), namenodes=1, datanodes=DATANODES), kerberos=kerberos)
    realm = Realm(directory.resolve(), kerberos)
    hdfs = HdfsCluster(
        directory,
        JARS / "hadoop",
        properties={**PROPERTIES, **realm.daemon_properties},
        heap_mb=HEAP_MB,
        jvm_options=STEADY_JVM_OPTIONS,
        jvm_properties=realm.jvm_properties,
        plan=plan,
    )
    cluster = SecureHdfsCluster(realm, hdfs)
    await cluster.start()
    try:
        login = {PRINCIPAL: realm.principal, KEYTAB: str(realm.keytab)}
        namenode = hdfs.namenodes[0]._replace(host=HOST_NAME)  # Kerberos goes by names
        yield Site(BenchCluster(hdfs, namenode), {**cluster.environment, **login})
    finally:
        await cluster.stop()
