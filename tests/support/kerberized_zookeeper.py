"""A real ZooKeeper that lets in who logs in by Kerberos, and nobody else.

made = kerberized_zookeeper(directory, kdc)
with used_here(kdc), running_zookeeper(made.server):
    made.security(kdc)                          # of a client that is let in
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from bmq.dev.java import QUICK_START_JVM_OPTIONS
from bmq.dev.kdc import Kdc
from bmq.dev.ports import HOST, pick_ports
from bmq.dev.zookeeper import ZooKeeperPlan, ZooKeeperServer
from bmq.election.zookeeper_security import GSSAPI, NodeAccess, ZooKeeperSecurity
from testing.zookeeper import ZOOKEEPER_JARS

SERVICE: Final = "zookeeper/localhost"
USER: Final = "bmq"


@dataclass
class KerberizedZooKeeper:
    server: ZooKeeperServer
    kdc: Kdc

    @property
    def address(self) -> str:
        """By the name in its principal."""
        return f"localhost:{self.server.address.port}"

    def security(self, user: str = USER, **changes: object) -> ZooKeeperSecurity:
        """Of a client with a keytab of this principal, which is made if it is new."""
        values: dict[str, object] = {
            "sasl_mechanism": GSSAPI,
            "principal": self.kdc.full(user),
            "keytab": str(self.kdc.keytab(user)),
            "acl": NodeAccess.AUTH,
            **changes,
        }
        return ZooKeeperSecurity(**values)  # type: ignore[arg-type]

    def environment(self, user: str = USER) -> dict[str, str]:
        """The same, for a process of bmq."""
        security = self.security(user)
        return {
            "KRB5_CONFIG": str(self.kdc.krb5_conf),
            "BMQ_ZOOKEEPER_SECURITY__SASL_MECHANISM": security.sasl_mechanism,
            "BMQ_ZOOKEEPER_SECURITY__PRINCIPAL": security.principal,
            "BMQ_ZOOKEEPER_SECURITY__KEYTAB": security.keytab,
            "BMQ_ZOOKEEPER_SECURITY__ACL": security.acl.value,
        }


def kerberized_zookeeper(
    directory: Path, kdc: Kdc, *, service: str = SERVICE, properties: Mapping[str, str] | None = None
) -> KerberizedZooKeeper:
    """Not started. It needs no KDC to start, because it logs in nowhere itself. `properties`: more of zoo.cfg."""
    directory.mkdir(parents=True, exist_ok=True)
    jaas = directory / "jaas.conf"
    jaas.write_text(
        "Server {\n  com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
        f' isInitiator=false\n  keyTab="{kdc.keytab(service)}" principal="{kdc.full(service)}";\n}};\n'
    )
    (port,) = pick_ports(HOST, 1, Random())
    server = ZooKeeperServer(
        directory / "server",
        ZOOKEEPER_JARS,
        jvm_options=(
            *QUICK_START_JVM_OPTIONS,
            f"-Djava.security.auth.login.config={jaas}",
            f"-Djava.security.krb5.conf={kdc.krb5_conf}",
        ),
        plan=ZooKeeperPlan.of_port(port),
        properties={
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            "enforce.auth.enabled": "true",
            "enforce.auth.schemes": "sasl",
            **(properties or {}),
        },
    )
    return KerberizedZooKeeper(server, kdc)
