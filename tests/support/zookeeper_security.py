"""A real ZooKeeper that takes TLS and, where it is told to, only clients that log in by SASL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

import trustme
from cryptography.hazmat.primitives import serialization

from bmq.dev.java import QUICK_START_JVM_OPTIONS
from bmq.dev.ports import HOST, pick_ports
from bmq.dev.zookeeper import ZooKeeperPlan, ZooKeeperServer
from bmq.election.zookeeper_security import NodeAccess, ZooKeeperSecurity
from testing.zookeeper import ZOOKEEPER_JARS

USER = "bmq"
PASSWORD = "correct horse, battery=staple"
OTHER_USER = "guest"


@dataclass
class SecureZooKeeper:
    """`tls_address`: HOST:PORT for TLS; `server.address` takes plain connections."""

    server: ZooKeeperServer
    tls_address: str
    authority: trustme.CA
    directory: Path

    def security(self, **changes: object) -> ZooKeeperSecurity:
        """Of a client that is let in everywhere."""
        values: dict[str, object] = {
            "sasl_mechanism": "DIGEST-MD5",
            "username": USER,
            "password_file": str(self.directory / "password"),
            "tls": True,
            "ca_file": str(self.directory / "ca.pem"),
            "acl": NodeAccess.AUTH,
            **changes,
        }
        return ZooKeeperSecurity(**values)  # type: ignore[arg-type]

    def client_files(self, authority: trustme.CA | None = None, name: str = "client") -> dict[str, str]:
        """Settings that name a client's certificate, of the server's authority unless told otherwise."""
        issued = (authority or self.authority).issue_cert(f"{name}.example")
        paths = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        issued.cert_chain_pems[0].write_to_path(paths[0])
        issued.private_key_pem.write_to_path(paths[1])
        paths[1].chmod(0o600)
        return {"certificate_file": str(paths[0]), "key_file": str(paths[1])}


def secret_file(path: Path, text: str) -> Path:
    path.write_text(text + "\n")
    path.chmod(0o600)
    return path


def secure_zookeeper(directory: Path, *, enforces_sasl: bool = False, client_auth: str = "none") -> SecureZooKeeper:
    """Not started. Its certificate is for localhost and 127.0.0.1. `client_auth`: none, want or need a certificate."""
    directory.mkdir(parents=True, exist_ok=True)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.pem")
    issued = authority.issue_cert("localhost", HOST)
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    # The only form that ZooKeeper reads.
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    (directory / "server.pem").write_bytes(key.private_bytes(*form) + chain)
    secret_file(directory / "password", PASSWORD)
    secret_file(directory / "other_password", "other")
    jaas = directory / "jaas.conf"
    jaas.write_text(
        "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
        f'  user_{USER}="{PASSWORD}"\n  user_{OTHER_USER}="other";\n}};\n'
    )
    port, tls_port = pick_ports(HOST, 2, Random())
    properties = {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": str(tls_port),
        "secureClientPortAddress": HOST,
        "ssl.keyStore.location": str(directory / "server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(directory / "ca.pem"),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": client_auth,
        "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    if enforces_sasl:
        properties |= {"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl"}
    options = (*QUICK_START_JVM_OPTIONS, f"-Djava.security.auth.login.config={jaas}")
    server = ZooKeeperServer(
        directory / "server",
        ZOOKEEPER_JARS,
        jvm_options=options,
        plan=ZooKeeperPlan.of_port(port),
        properties=properties,
    )
    return SecureZooKeeper(server, f"{HOST}:{tls_port}", authority, directory)
