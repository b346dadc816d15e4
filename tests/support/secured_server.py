"""One server with a listener for each secured protocol, and what stock clients have to be told to come in by each.

User `alice` is in super.users, by password and by certificate; nobody else may do anything.
"""

from __future__ import annotations

import json
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from testing.processes import free_port
from testing.servers import BmqServer, bmq_command, without_listen

USER: Final = "alice"
PASSWORD: Final = "alice-secret-2"
SSL, SASL_PLAINTEXT, SASL_SSL = "SSL", "SASL_PLAINTEXT", "SASL_SSL"
PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"
BY_PASSWORD: Final = (PLAIN, SCRAM_256, SCRAM_512)
TOKEN_LIFE_S: Final = 300


@dataclass(frozen=True, slots=True)
class Door:
    """How a client comes in. `mechanism` empty: by a certificate."""

    protocol: str
    mechanism: str = ""

    def __str__(self) -> str:
        return f"{self.protocol}-{self.mechanism or 'certificate'}"


PASSWORD_DOORS: Final = tuple(Door(protocol, one) for protocol in (SASL_PLAINTEXT, SASL_SSL) for one in BY_PASSWORD)
DOORS: Final = (
    Door(SSL),
    *PASSWORD_DOORS,
    *(Door(protocol, OAUTHBEARER) for protocol in (SASL_PLAINTEXT, SASL_SSL)),
)


class SecuredServer(BmqServer):
    """`more`: settings of Kafka's. `token`: makes bearer tokens; None: there is no OAUTHBEARER. Files are in `files`."""

    def __init__(
        self, directory: Path, more: dict[str, str] | None = None, token: Callable[[], str] | None = None
    ) -> None:
        super().__init__(directory, {"BMQ_LOG_LEVEL": "debug"}, has_extras=token is not None)
        self.files = directory.with_name("files")
        self.files.mkdir()
        self.authority = trustme.CA()
        self.trust = self.write("ca.pem", self.authority.cert_pem.bytes())
        self.issue_node()
        self.certificate = self.issue(USER)
        self.password = PASSWORD
        self._token = token
        self._ports = {SASL_PLAINTEXT: self.port, SASL_SSL: free_port(), SSL: free_port()}
        mechanisms = [*BY_PASSWORD, *([OAUTHBEARER] if token else [])]
        configs = {
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in self._ports.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in self._ports),
            "sasl.enabled.mechanisms": ",".join(mechanisms),
            "ssl.keystore.location": str(self.files / "node.pem"),
            "ssl.truststore.location": str(self.trust),
            "listener.name.ssl.ssl.client.auth": "required",
            "ssl.allow.dn.changes": "true",  # trustme makes a new name each time
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{USER}",
            **(more or {}),
        }
        lines = "".join(f"{json.dumps(name)} = {json.dumps(text)}\n" for name, text in configs.items())
        self._settings = self.write("bmq.toml", f"[kafka]\n{lines}".encode())

    def make_user(self) -> None:
        """Before the first start."""
        command = [bmq_command(), "user", "bootstrap", USER, "--data", str(self.directory)]
        subprocess.run(command, input=f"{PASSWORD}\n", text=True, check=True, capture_output=True)

    def write(self, name: str, data: bytes) -> Path:
        """A file that is closed to others, in place of the one before."""
        made = self.files / f"{name}.new"
        made.write_bytes(data)
        made.chmod(0o600)
        return made.replace(self.files / name)

    def issue_node(self) -> Path:
        """A new certificate for the server."""
        issued = self.authority.issue_cert("localhost", "127.0.0.1")
        return self.write("node.pem", issued.private_key_and_cert_chain_pem.bytes())

    def issue(self, file_name: str, user: str = "") -> Path:
        """Private key (PKCS 8, as Java wants it) and certificate of a client; `user`: if it is called otherwise."""
        name = user or file_name
        issued = self.authority.issue_cert(f"{name}@example.org", common_name=name)
        key = load_pem_private_key(issued.private_key_pem.bytes(), None)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return self.write(f"{file_name}.pem", pem + issued.cert_chain_pems[0].bytes())

    def bootstrap_of(self, door: Door) -> str:
        return f"127.0.0.1:{self._ports[door.protocol]}"

    def token(self) -> str:
        assert self._token is not None
        return self._token()

    def context(self, door: Door) -> ssl.SSLContext | None:
        """For clients in Python."""
        if door.protocol == SASL_PLAINTEXT:
            return None
        context = ssl.create_default_context(cafile=str(self.trust))
        if not door.mechanism:
            context.load_cert_chain(self.certificate)
        return context

    def librdkafka(self, door: Door, **more: Any) -> dict[str, Any]:
        settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap_of(door), "security.protocol": door.protocol}
        if door.protocol != SASL_PLAINTEXT:
            settings["ssl.ca.location"] = str(self.trust)
        if not door.mechanism:
            certificate = str(self.certificate)
            return {**settings, "ssl.certificate.location": certificate, "ssl.key.location": certificate, **more}
        settings["sasl.mechanism"] = door.mechanism
        if door.mechanism == OAUTHBEARER:
            expires_s = 2.0**33
            settings["oauth_cb"] = lambda _: (self.token(), expires_s)
        else:
            settings |= {"sasl.username": USER, "sasl.password": self.password}
        return {**settings, **more}

    def java(self, door: Door) -> dict[str, str]:
        """Properties of Java's clients, Streams, Connect and Spark. By a password or a certificate."""
        settings = {"security.protocol": door.protocol}
        if door.protocol != SASL_PLAINTEXT:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.trust)}
        if not door.mechanism:
            return {**settings, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.certificate)}
        module = "plain.Plain" if door.mechanism == PLAIN else "scram.Scram"
        jaas = f'org.apache.kafka.common.security.{module}LoginModule required username="{USER}" password="{self.password}";'
        return {**settings, "sasl.mechanism": door.mechanism, "sasl.jaas.config": jaas}

    def java_file(self, door: Door) -> Path:
        text = "".join(f"{name}={value}\n" for name, value in self.java(door).items())
        return self.write(f"{door}.properties", text.encode())

    def program_file(self, door: Door, topic: str, value: str) -> Path:
        """What the programs in Go and JavaScript are told, as JSON."""
        told = {
            "bootstrap": self.bootstrap_of(door),
            "is_tls": door.protocol != SASL_PLAINTEXT,
            "mechanism": door.mechanism,
            "user": USER,
            "password": self.token() if door.mechanism == OAUTHBEARER else self.password,
            "ca": str(self.trust),
            "certificate": str(self.certificate),
            "topic": topic,
            "value": value,
        }
        return self.write(f"{topic}.json", json.dumps(told).encode())

    def _arguments(self) -> list[str]:
        return [*without_listen(super()._arguments()), "--config", str(self._settings)]
