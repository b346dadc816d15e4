"""Delegation tokens with Kafka's own tool and clients, and the codes of their APIs beside Apache Kafka's."""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic

from testing.java import CONFIGS, CONSOLE_CONSUMER, CONSOLE_PRODUCER, ToolResult
from testing.patience import Patience
from testing.servers import BmqServer, KafkaServer, Server
from testing.wire import WireClient
from tests.conformance import codec
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(240)]

TOKENS: Final = "org.apache.kafka.tools.DelegationTokenCommand"
SECRET: Final = "token-secret-4"
PASSWORDS: Final = {"admin": "root-secret-1", "alice": "alice-secret-2", "bob": "bob-secret-3"}
USERS: Final = " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items())
JAAS: Final = f"org.apache.kafka.common.security.plain.PlainLoginModule required {USERS};"
BMQ: Final = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "delegation.token.secret.key": SECRET,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
}
KAFKA: Final = {
    **BMQ,
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS.replace(
        "required", f'required username="admin" password="{PASSWORDS["admin"]}"'
    ),
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "super.users": "User:admin;User:ANONYMOUS",
}
HANDSHAKE, AUTHENTICATE, CREATE, RENEW, EXPIRE, DESCRIBE, CREATE_ACLS = 17, 36, 38, 39, 40, 41, 30
QUOTAS, ALTER_QUOTAS, SCRAM, ALTER_SCRAM = 48, 49, 50, 51
SETTLED_S: Final = 30.0
POLL_INTERVAL_S: Final = 0.05


def settings_of(directory: Path, user: str) -> str:
    path = directory / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{user}" password="{PASSWORDS[user]}";\n'
    )
    return str(path)


def by_token(directory: Path, token_id: str, mac: str, mechanism: str = "SCRAM-SHA-256") -> str:
    path = directory / f"{mechanism}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{token_id}" password="{mac}" tokenauth="true";\n'
    )
    return str(path)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmqServer]:
    """Topic `t`, which alice may use."""
    directory = tmp_path_factory.mktemp("tokens")
    server = BmqServer(directory / "data", {"BMQ_KAFKA": json.dumps(BMQ), "BMQ_LOG_LEVEL": "debug"})
    server.start()
    admin = AdminClient(
        {
            "bootstrap.servers": server.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": PASSWORDS["admin"],
        }
    )
    admin.create_topics([NewTopic("t", num_partitions=1, replication_factor=1)])["t"].result(timeout=20)
    with LoggedIn(server, "admin") as client:
        for kind, name in ((2, "t"), (3, "*")):
            client.call(CREATE_ACLS, creations=[acl("User:alice", kind, name, 2)])
    yield server
    server.stop()
    logged = server.log_file.read_text()
    assert "Traceback" not in logged and "delegation_token_created" in logged
    assert [one for one in (SECRET, *PASSWORDS.values(), *_seen_macs) if one in logged] == []


_seen_macs: Final[list[str]] = []


def acl(principal: str, kind: int, name: str, operation: int) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "resource_pattern_type": 3,
        "principal": principal,
        "host": "*",
        "operation": operation,
        "permission_type": 3,
    }


class LoggedIn:
    """A connection of a user, by PLAIN."""

    def __init__(self, server: Server, user: str) -> None:
        self._client = WireClient(server.port)
        self.call(HANDSHAKE, 1, mechanism="PLAIN")
        done = self.call(AUTHENTICATE, 2, auth_bytes=f"\0{user}\0{PASSWORDS[user]}".encode())
        assert done["error_code"] == 0, done

    def __enter__(self) -> LoggedIn:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def call(self, api_key: int, version: int | None = None, **values: Any) -> Mapping[str, Any]:
        """By default in the newest version of Kafka 4.3."""
        newest = {CREATE: 3, RENEW: 2, EXPIRE: 2, DESCRIBE: 3, CREATE_ACLS: 3, QUOTAS: 1, ALTER_QUOTAS: 1}
        version = newest.get(api_key, 0) if version is None else version
        self._client.send_raw(codec.request_frame(api_key, version, values, 1, "test"))
        return codec.response_values(api_key, version, self._client.receive_frame())


def tool(server: BmqServer, directory: Path, user: str, *arguments: str, check: bool = True) -> ToolResult:
    where = ("--bootstrap-server", server.bootstrap, "--command-config", settings_of(directory, user))
    return run_tool(TOKENS, *where, *arguments, check=check)


def made_token(server: BmqServer, directory: Path, user: str, *arguments: str) -> tuple[str, str]:
    """Id and HMAC of a new token, as the tool prints them."""
    done = tool(server, directory, user, "--create", "--max-life-time-period", "-1", *arguments)
    row = next(line.split() for line in done.out.splitlines() if re.match(r"\S{22}\s", line))
    _seen_macs.append(row[1])
    return row[0], row[1]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_javas_clients_log_in_by_a_token_of_kafkas_tool(server: BmqServer, tmp_path: Path, mechanism: str) -> None:
    token_id, mac = made_token(server, tmp_path, "alice", "--renewer-principal", "User:bob")
    assert len(base64.b64decode(mac)) == 64
    config = by_token(tmp_path, token_id, mac, mechanism)
    where = ("--bootstrap-server", server.bootstrap, "--topic", "t", "--command-config", config)
    run_tool(CONSOLE_PRODUCER, *where, stdin=f"by token {mechanism}\n")
    done = run_tool(CONSOLE_CONSUMER, *where, "--from-beginning", "--max-messages", "1", "--timeout-ms", "20000")
    assert done.out.strip()
    # A token makes no tokens, and one that is gone logs nobody in.
    refused = run_tool(
        TOKENS,
        *("--bootstrap-server", server.bootstrap, "--command-config", config, "--create"),
        *("--max-life-time-period", "-1"),
        check=False,
    )
    assert "Delegation Token requests are not allowed" in refused.out + refused.err
    assert token_id in tool(server, tmp_path, "bob", "--describe", "--owner-principal", "User:alice").out
    tool(server, tmp_path, "bob", "--renew", "--renew-time-period", "-1", "--hmac", mac)
    tool(server, tmp_path, "alice", "--expire", "--expiry-time-period", "-1", "--hmac", mac)
    assert token_id not in tool(server, tmp_path, "bob", "--describe", "--owner-principal", "User:alice").out
    gone = run_tool(
        CONFIGS, *where[:2], "--command-config", config, "--describe", "--entity-type", "users", check=False
    )
    assert gone.code != 0 and "invalid credentials with SASL mechanism" in gone.out + gone.err


def test_the_id_of_a_token_is_no_user(server: BmqServer, tmp_path: Path) -> None:
    """librdkafka cannot say `tokenauth`."""
    token_id, mac = made_token(server, tmp_path, "alice")
    errors: list[KafkaError] = []
    admin = AdminClient(
        {
            "bootstrap.servers": server.bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": token_id,
            "sasl.password": mac,
            "error_cb": errors.append,
        }
    )
    patience = Patience(SETTLED_S)
    while not errors and not patience.is_over():
        admin.poll(0.2)
    assert errors and errors[0].code() == KafkaError._AUTHENTICATION, errors


class Story:
    """The same requests at one server: what is answered, without ids and times."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.told: list[tuple[str, Any]] = []
        self._clients = {user: LoggedIn(server, user) for user in PASSWORDS}

    def close(self) -> None:
        for one in self._clients.values():
            one.__exit__()

    def ask(self, what: str, user: str, api_key: int, version: int | None = None, **values: Any) -> Mapping[str, Any]:
        answer = self._clients[user].call(api_key, version, **values)
        self.told.append((what, _told(answer)))
        return answer

    def settle(self, user: str, is_there: Any) -> None:
        """Kafka's brokers hear of tokens and ACLs a moment later."""
        patience = Patience(SETTLED_S)
        while not is_there(tokens := self._clients[user].call(DESCRIBE, owners=None)["tokens"]):
            assert not patience.is_over(), tokens
            time.sleep(POLL_INTERVAL_S)
        patience.note()

    def tell(self) -> list[tuple[str, Any]]:
        user = {"principal_type": "User"}
        create: dict[str, Any] = {
            "owner_principal_type": None,
            "owner_principal_name": None,
            "renewers": [],
            "max_lifetime_ms": -1,
        }
        bobs = [{**user, "principal_name": "bob"}]
        for version in (1, 2, 3):
            self.ask(f"create v{version}", "alice", CREATE, version, **create)
        made = self.ask(
            "create with a renewer", "alice", CREATE, **{**create, "renewers": bobs, "max_lifetime_ms": 10**6}
        )
        self.settle("bob", lambda tokens: len(tokens) == 1)
        mac = made["hmac"]
        group = [{"principal_type": "Group", "principal_name": "g"}]
        self.ask("a renewer that is no user", "alice", CREATE, **{**create, "renewers": group})
        for_bob = {**create, "owner_principal_type": "User", "owner_principal_name": "bob"}
        self.ask("for another without the right", "alice", CREATE, **for_bob)
        self.ask("for another as super user", "admin", CREATE, **for_bob)
        self.settle("bob", lambda tokens: len(tokens) == 2)
        for version in (1, 2, 3):
            self.ask(f"own and renewable v{version}", "bob", DESCRIBE, version, owners=None)
        self.ask("of no owner", "bob", DESCRIBE, owners=[])
        self.ask("of an owner", "bob", DESCRIBE, owners=[{**user, "principal_name": "alice"}])
        self.ask("of another without the right", "alice", DESCRIBE, owners=[{**user, "principal_name": "admin"}])
        for version in (1, 2):
            self.ask(f"renew v{version}", "bob", RENEW, version, hmac=mac, renew_period_ms=-1)
        self.ask("renew for a while", "alice", RENEW, hmac=mac, renew_period_ms=5_000)
        self.ask("renew another's", "admin", RENEW, hmac=mac, renew_period_ms=-1)
        self.ask("renew an unknown one", "alice", RENEW, hmac=b"none", renew_period_ms=-1)
        self.ask("expire another's", "admin", EXPIRE, hmac=mac, expiry_time_period_ms=-1)
        self.ask("expire an unknown one", "alice", EXPIRE, hmac=b"none", expiry_time_period_ms=-1)
        self.ask("expire later", "bob", EXPIRE, hmac=mac, expiry_time_period_ms=9_000)
        self.ask("expire at once", "alice", EXPIRE, hmac=mac, expiry_time_period_ms=-1)
        self.settle("bob", lambda tokens: len(tokens) == 1)
        self.ask("expire again", "alice", EXPIRE, hmac=mac, expiry_time_period_ms=-1)
        # The other APIs about users, by somebody without a right, and by one with all.
        for name in ("alice", "admin"):
            self.ask(f"users by {name}", name, SCRAM, users=[{"name": "none"}])
            self.ask(
                f"a deletion by {name}", name, ALTER_SCRAM, deletions=[{"name": "none", "mechanism": 1}], upsertions=[]
            )
            component = {"entity_type": "user", "match_type": 0, "match": "none"}
            self.ask(f"quotas by {name}", name, QUOTAS, components=[component], strict=False)
            entry = {
                "entity": [{"entity_type": "user", "entity_name": "x"}],
                "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
            }
            self.ask(f"a quota by {name}", name, ALTER_QUOTAS, entries=[entry], validate_only=True)
        return self.told


_DIFFERS: Final = frozenset({"token_id", "hmac", "error_message", "throttle_time_ms"})
_TIMES: Final = frozenset({"issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms"})
_TIMES_DESCRIBED: Final = frozenset({"issue_timestamp", "expiry_timestamp", "max_timestamp"})


def _told(value: Any) -> Any:
    """Without what differs from run to run; times only as whether there is one."""
    if isinstance(value, Mapping):
        told = {name: _told(one) for name, one in value.items() if name not in _DIFFERS}
        for name in (_TIMES | _TIMES_DESCRIBED) & told.keys():
            told[name] = told[name] if told[name] < 10**9 else "a time"
        for name in ("token_id", "hmac"):
            if name in value:
                told[name] = len(value[name])
        return told
    if isinstance(value, list):
        return sorted((_told(one) for one in value), key=repr)
    return value


@pytest.mark.campaign("kafka")
def test_every_answer_is_kafkas(tmp_path: Path) -> None:
    """APIs 38-41 and 48-51 with logins and an authorizer, beside Apache Kafka."""
    told = []
    for server in (
        BmqServer(tmp_path / "bmq", {"BMQ_KAFKA": json.dumps(BMQ)}),
        KafkaServer(tmp_path / "kafka", KAFKA),
    ):
        server.start()
        try:
            story = Story(server)
            told.append(dict(story.tell()))
            story.close()
        finally:
            server.close()
    ours, theirs = told
    assert ours.keys() == theirs.keys()
    wrong = [f"{what}: {ours[what]} instead of {theirs[what]}" for what in ours if ours[what] != theirs[what]]
    assert not wrong, "\n".join(wrong)
