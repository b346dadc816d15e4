"""One secured node of either side: a plain, a TLS and a SASL listener under the same settings, by Kafka's names."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

import trustme

from bench.criteria import BMQ, KAFKA
from testing.java import CONFIGS, run_tool
from testing.processes import free_port
from testing.servers import BmqServer, KafkaServer, Server, server_command

PLAIN: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL: Final = "SASL_PLAINTEXT"
USER: Final = "bench"
PASSWORD: Final = "bench-secret"
MECHANISM: Final = "SCRAM-SHA-256"
ITERATIONS: Final = 4_096
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


class Certificates:
    """An authority of its own and a node's certificate, as PEM files in `directory`."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        node = authority.issue_cert(
            "localhost",
            "127.0.0.1",
            not_after=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=2),
            key_type=trustme.KeyType.ECDSA,
        )
        self.authority = directory / "ca.pem"
        self.node = directory / "node.pem"
        authority.cert_pem.write_to_path(str(self.authority))
        self.node.write_bytes(_pkcs8(node.private_key_pem.bytes()))
        self.node.chmod(0o600)
        for part in node.cert_chain_pems:
            part.write_to_path(str(self.node), append=True)

    @property
    def of_clients(self) -> dict[str, str]:
        """librdkafka's properties."""
        return {"security.protocol": "ssl", "ssl.ca.location": str(self.authority)}


def _pkcs8(pem: bytes) -> bytes:
    """Kafka reads no other form of a private key (KIP-651)."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


class Secured(Protocol):
    """A node with all three listeners. `ports` by listener."""

    ports: Mapping[str, int]
    server: Server


def settings_of(certificates: Certificates, ports: Mapping[str, int], more: Mapping[str, str]) -> dict[str, str]:
    """The same for both sides, by Kafka's names; `listeners` without those of a controller."""
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in ports),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.node),
        "ssl.enabled.protocols": "TLSv1.3",
        "ssl.client.auth": "none",
        "sasl.enabled.mechanisms": MECHANISM,
        f"listener.name.{SASL.lower()}.{MECHANISM.lower()}.sasl.jaas.config": SCRAM_MODULE,
        **more,
    }


class SecuredKafka:
    def __init__(self, directory: Path, certificates: Certificates, more: Mapping[str, str]) -> None:
        server = KafkaServer(directory)
        self.ports = {PLAIN: server.port, SSL: free_port(), SASL: free_port()}
        settings = settings_of(certificates, self.ports, more)
        controller = f"CONTROLLER://127.0.0.1:{server.controller_port}"
        settings["listeners"] += f",{controller}"
        settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
        server.set(settings)
        self.server: Server = server


class SecuredBmq:
    def __init__(self, directory: Path, certificates: Certificates, more: Mapping[str, str]) -> None:
        server = BmqWithSettings(directory)
        self.ports = {PLAIN: server.port, SSL: free_port(), SASL: free_port()}
        server.set({**settings_of(certificates, self.ports, more), "max.connections.per.ip": str(2**31 - 1)})
        self.server: Server = server


class BmqWithSettings(BmqServer):
    """`bmq standalone` with a settings file that holds broker configs."""

    def set(self, configs: Mapping[str, str]) -> None:
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.directory.with_suffix(".toml")
        lines = (f'"{name}" = "{value}"\n' for name, value in configs.items())
        self._file.write_text("[kafka]\n" + "".join(lines))

    def _arguments(self) -> list[str]:
        return [
            *(server_command(), "standalone", "--config", str(self._file)),
            *("--rest", "127.0.0.1:0", "--data", str(self.directory)),
        ]


MAKERS: Final[Mapping[str, Callable[[Path, Certificates, Mapping[str, str]], Secured]]] = {
    BMQ: SecuredBmq,  # type: ignore[dict-item]
    KAFKA: SecuredKafka,  # type: ignore[dict-item]
}


def bootstrap(side: Secured, listener: str) -> str:
    """HOST:PORT of one listener."""
    return f"127.0.0.1:{side.ports[listener]}"


def add_user(side: Secured) -> None:
    """By Kafka's own tool, which derives the salted password."""
    run_tool(
        CONFIGS,
        *("--bootstrap-server", bootstrap(side, PLAIN), "--alter", "--entity-type", "users", "--entity-name", USER),
        *("--add-config", f"{MECHANISM}=[iterations={ITERATIONS},password={PASSWORD}]"),
    )
