"""How the clients of a soak come in: as anybody, or over TLS with a password and the rights that they need."""

from __future__ import annotations

import base64
import datetime
import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from testing.processes import dying_with_us
from testing.servers import bmq_command
from testing.wire import WireClient
from tests.support.logged_in import LoggedIn

ADMINISTRATOR: Final = "administrator"
PRODUCER: Final = "producer"
READER: Final = "reader"
PROTOCOL: Final = "SASL_SSL"
MECHANISM: Final = "SCRAM-SHA-256"
_PASSWORD: Final = "of every user, 1"
_ITERATIONS: Final = 4096
_BOOTSTRAP_WAIT_S: Final = 120.0
_ANSWER_WAIT_S: Final = 60.0
_LIFE: Final = datetime.timedelta(days=2)


class Logins(Protocol):
    """`user`: ADMINISTRATOR, PRODUCER or READER."""

    def settings(self, user: str) -> Mapping[str, Any]:
        """librdkafka's."""

    def wire(self, port: int, host: str = "127.0.0.1") -> WireClient:
        """A connection that may ask for everything. Raises OSError."""


class Anybody:
    """Without a login. Implements Logins."""

    def settings(self, user: str) -> Mapping[str, Any]:
        return {}

    def wire(self, port: int, host: str = "127.0.0.1") -> WireClient:
        return WireClient(port, host=host)


ANYBODY: Final = Anybody()


class Secured:
    """TLS, SCRAM and ACLs at the one listener of a server and at its REST address. Implements Logins."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self._trust = directory / "ca.pem"
        authority.cert_pem.write_to_path(str(self._trust))
        self._node = directory / "node.pem"
        issued = authority.issue_cert(
            "localhost",
            "127.0.0.1",
            not_after=datetime.datetime.now(datetime.UTC) + _LIFE,
            key_type=trustme.KeyType.ECDSA,
        )
        self._node.write_bytes(issued.private_key_and_cert_chain_pem.bytes())
        self._node.chmod(0o600)
        self.context: Final = ssl.create_default_context(cafile=str(self._trust))
        login = base64.b64encode(f"{ADMINISTRATOR}:{_PASSWORD}".encode()).decode()
        self.rest_headers: Final = {"Authorization": f"Basic {login}"}

    def configs(self, port: int) -> Mapping[str, str]:
        """The server's, by Kafka's names."""
        return {
            "listeners": f"{PROTOCOL}://127.0.0.1:{port}",
            "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL}",
            "sasl.enabled.mechanisms": MECHANISM,
            "ssl.keystore.location": str(self._node),
            "listener.name.rest.ssl.keystore.location": str(self._node),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMINISTRATOR}",
        }

    @property
    def environment(self) -> Mapping[str, str]:
        """The server's, for what is no config of Kafka's."""
        return {"BMQ_REST_SECURITY__PROTOCOL": "https", "BMQ_REST_SECURITY__LOGINS": "basic"}

    def settings(self, user: str) -> Mapping[str, Any]:
        return {
            "security.protocol": PROTOCOL,
            "ssl.ca.location": str(self._trust),
            "sasl.mechanism": MECHANISM,
            "sasl.username": user,
            "sasl.password": _PASSWORD,
        }

    def wire(self, port: int, host: str = "127.0.0.1") -> WireClient:
        return LoggedIn(port, self.context).scram(ADMINISTRATOR, _PASSWORD).wire

    def make_administrator(self, data: Path, store: str) -> None:
        """In a store on which no server was started yet. Raises CalledProcessError, TimeoutExpired."""
        command = [bmq_command(), "user", "bootstrap", ADMINISTRATOR, "--data", str(data), "--store", store]
        subprocess.run(
            dying_with_us(command),
            input=f"{_PASSWORD}\n",
            text=True,
            check=True,
            capture_output=True,
            timeout=_BOOTSTRAP_WAIT_S,
        )

    def make_users(self, bootstrap: str, topics: tuple[str, ...], groups: tuple[str, ...]) -> None:
        """PRODUCER may write to the topics, READER may read them in these groups. Raises KafkaException."""
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0, **self.settings(ADMINISTRATOR)})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, _ITERATIONS)
        users = [UserScramCredentialUpsertion(user, info, _PASSWORD.encode()) for user in (PRODUCER, READER)]
        for done in admin.alter_user_scram_credentials(users).values():
            done.result(_ANSWER_WAIT_S)
        acls = [
            *(_allowed(ResourceType.TOPIC, topic, PRODUCER, AclOperation.WRITE) for topic in topics),
            *(_allowed(ResourceType.TOPIC, topic, READER, AclOperation.READ) for topic in topics),
            *(_allowed(ResourceType.GROUP, group, READER, AclOperation.READ) for group in groups),
        ]
        for made in admin.create_acls(acls).values():
            made.result(_ANSWER_WAIT_S)


def _allowed(kind: ResourceType, name: str, user: str, operation: AclOperation) -> AclBinding:
    return AclBinding(
        kind, name, ResourcePatternType.LITERAL, f"User:{user}", "127.0.0.1", operation, AclPermissionType.ALLOW
    )
