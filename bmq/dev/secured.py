"""The files of a secured development cluster: certificates, users' passwords, and settings for servers and clients.

Everything is in `security` of the cluster's directory, made once and kept, and closed to others of the machine.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bmq.dataclass import dataclass
from bmq.dev.certificates import new_certificates
from bmq.election.zookeeper_security import DIGEST_MD5, NodeAccess, ZooKeeperSecurity
from bmq.rest_client.login import RestLogin

DIRECTORY: Final = "security"
ADMIN: Final = "admin"
USERS: Final = (ADMIN, "alice", "bob")
ZOOKEEPER_USER: Final = "bmq"
_MECHANISM: Final = "SCRAM-SHA-512"
_PASSWORD_BYTES: Final = 12
_ZOOKEEPER_PASSWORD: Final = "zookeeper.password"
_ZOOKEEPER_JAAS: Final = "zookeeper.jaas"


@dataclass(frozen=True, slots=True)
class SecuredFiles:
    """In `directory`. `user` below is one of USERS."""

    directory: Path

    @classmethod
    def of(cls, data: Path) -> SecuredFiles:
        """The files of the cluster in this directory, whether they exist or not."""
        return cls(data.resolve() / DIRECTORY)

    @property
    def exist(self) -> bool:
        return self.directory.is_dir()

    def make(self, password: Callable[[], str] = lambda: secrets.token_urlsafe(_PASSWORD_BYTES)) -> None:
        """Raises NoCertificates, BadZooKeeperSecurity; then there are no files."""
        authority, node = new_certificates()
        made = self.directory.with_name(f".{DIRECTORY}")  # renamed when it is whole
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(mode=0o700, parents=True)
        _write(made / "ca.pem", authority)
        _write(made / "node.pem", node)
        for user in USERS:
            word = password()
            _write(made / f"{user}.password", f"{word}\n")
            _write(made / f"{user}.properties", self._java(user, word))
            _write(made / f"{user}.conf", self._librdkafka(user, word))
            _write(made / f"{user}.rest.toml", self._rest(user))
        word = password()
        _write(made / _ZOOKEEPER_PASSWORD, f"{word}\n")
        _write(made / _ZOOKEEPER_JAAS, _jaas(word))
        _zookeeper(made).check()  # the package for it may be missing
        made.rename(self.directory)

    def remove(self) -> None:
        shutil.rmtree(self.directory)

    def settings(self) -> str:
        """For servers, as TOML: what a client has to show, at Kafka's listeners and at REST.

        Between nodes there is neither: they are all on this machine. A mutual TLS of theirs has its settings here, too.
        """
        kafka = {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "ssl.keystore.location": str(self.directory / "node.pem"),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN}",
        }
        lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in kafka.items()]
        told = '[rest_security]\nprotocol = "https"\nlogins = "basic"\n[kafka]\n' + "\n".join(lines) + "\n"
        if not self.has_zookeeper:
            return told
        security = _zookeeper(self.directory)
        names = ("sasl_mechanism", "username", "password_file", "acl")
        return f"{told}[zookeeper_security]\n" + "".join(
            f"{name} = {json.dumps(getattr(security, name))}\n" for name in names
        )

    @property
    def has_zookeeper(self) -> bool:
        """Whether nodes log in to ZooKeeper: those of a cluster that an earlier release made do not."""
        return (self.directory / _ZOOKEEPER_JAAS).exists()

    @property
    def zookeeper_properties(self) -> dict[str, str]:
        """Of zoo.cfg."""
        provider = "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        return {"authProvider.1": provider} if self.has_zookeeper else {}

    @property
    def zookeeper_options(self) -> tuple[str, ...]:
        """Of ZooKeeper's Java."""
        jaas = self.directory / _ZOOKEEPER_JAAS
        return (f"-Djava.security.auth.login.config={jaas}",) if self.has_zookeeper else ()

    def password(self, user: str) -> str:
        return (self.directory / f"{user}.password").read_text().strip()

    def login(self) -> RestLogin:
        """The administrator's, at REST."""
        return RestLogin(
            ca_file=str(self.directory / "ca.pem"), user=ADMIN, password_file=str(self.directory / f"{ADMIN}.password")
        )

    def _java(self, user: str, password: str) -> str:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return (
            f"security.protocol=SASL_SSL\nsasl.mechanism={_MECHANISM}\n"
            f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self.directory / 'ca.pem'}\n"
        )

    def _librdkafka(self, user: str, password: str) -> str:
        return (
            f"security.protocol=SASL_SSL\nsasl.mechanism={_MECHANISM}\nsasl.username={user}\nsasl.password={password}\n"
            f"ssl.ca.location={self.directory / 'ca.pem'}\n"
        )

    def _rest(self, user: str) -> str:
        files = {"ca_file": "ca.pem", "password_file": f"{user}.password"}
        lines = [f"{name} = {json.dumps(str(self.directory / file))}" for name, file in files.items()]
        return f"user = {json.dumps(user)}\n" + "\n".join(lines) + "\n"


def _jaas(password: str) -> str:
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    return f'Server {{\n  {module} required user_{ZOOKEEPER_USER}="{password}";\n}};\n'


def _zookeeper(directory: Path) -> ZooKeeperSecurity:
    """How nodes log in, with files of this directory."""
    return ZooKeeperSecurity(
        sasl_mechanism=DIGEST_MD5,
        username=ZOOKEEPER_USER,
        password_file=str(directory / _ZOOKEEPER_PASSWORD),
        acl=NodeAccess.AUTH,
    )


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
