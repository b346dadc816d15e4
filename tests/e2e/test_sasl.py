"""Users are made by Kafka's own tool and by ours, and log in by PLAIN and SCRAM; no password is in the server's log.

Every stock client by every mechanism: test_secured_clients.py.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaProducer

from testing.java import CONFIGS, ToolResult
from testing.processes import eventually
from testing.servers import BmqServer, bmq_command
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(240)]

ROOT_PASSWORD, PASSWORD, WRONG = "root-secret-1", "alice-secret-2", "wrong-secret-3"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="{ROOT_PASSWORD}";'
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LIBRDKAFKA_AUTHENTICATION = KafkaError._AUTHENTICATION
RENEWED_WAIT_S = 30.0
TOLD_WAIT_S = 30.0


def kafka(**more: str) -> dict[str, str]:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
        **more,
    }
    return {"BMQ_KAFKA": json.dumps(settings), "BMQ_LOG_LEVEL": "debug"}


def client(server: BmqServer, mechanism: str, user: str = "alice", password: str = PASSWORD) -> dict[str, Any]:
    """Settings of librdkafka."""
    return {
        "bootstrap.servers": server.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def of_java(directory: Path, mechanism: str, user: str, password: str) -> str:
    """A file for --command-config."""
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    path = directory / f"{mechanism}-{user}-{len(password)}.properties"
    path.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
        f'username="{user}" password="{password}";\n'
    )
    return str(path)


def users(server: BmqServer, directory: Path, *arguments: str, check: bool = True) -> ToolResult:
    admin = of_java(directory, "PLAIN", "admin", ROOT_PASSWORD)
    return run_tool(
        CONFIGS,
        *("--bootstrap-server", server.bootstrap, "--command-config", admin, "--entity-type", "users", *arguments),
        check=check,
    )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BmqServer]:
    """A server with topic `t`, user `admin` of the JAAS line, and user `alice` made by kafka-configs."""
    directory = tmp_path_factory.mktemp("secured")
    server = BmqServer(directory / "data", kafka())
    server.start()
    for config in (f"SCRAM-SHA-256=[password={PASSWORD}]", f"SCRAM-SHA-512=[iterations=8192,password={PASSWORD}]"):
        users(server, directory, "--alter", "--entity-name", "alice", "--add-config", config)
    admin = AdminClient(client(server, "PLAIN", "admin", ROOT_PASSWORD))
    admin.create_topics([NewTopic("t", num_partitions=1, replication_factor=1)])["t"].result(timeout=20)
    yield server
    server.stop()
    logged = server.log_file.read_text()
    assert "Traceback" not in logged
    assert [secret for secret in (ROOT_PASSWORD, PASSWORD, WRONG) if secret in logged] == []
    assert "client_authenticated" in logged


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_with_a_wrong_password(secured: BmqServer, mechanism: str) -> None:
    errors: list[KafkaError] = []
    settings = client(secured, mechanism, password=WRONG)
    admin = AdminClient({**settings, "error_cb": errors.append})
    eventually(lambda: (admin.poll(0.2), errors)[1], 20, "the login is refused", interval_s=0)
    assert errors[0].code() == LIBRDKAFKA_AUTHENTICATION, errors


def test_users_are_described_changed_and_deleted(secured: BmqServer, tmp_path: Path) -> None:
    admin = AdminClient(client(secured, "PLAIN", "admin", ROOT_PASSWORD))

    def described() -> dict[str, list[int]]:
        found = admin.describe_user_scram_credentials().result(timeout=20)
        return {name: [info.iterations for info in one.scram_credential_infos] for name, one in found.items()}

    add = f"SCRAM-SHA-256=[password={PASSWORD}]"
    users(secured, tmp_path, "--alter", "--entity-name", "bob", "--add-config", add)
    assert described() == {"alice": [4096, 8192], "bob": [4096]}
    for user, mechanism in (("bob", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-512")):
        assert "t" in AdminClient(client(secured, mechanism, user)).list_topics(timeout=20).topics
    users(secured, tmp_path, "--alter", "--entity-name", "bob", "--delete-config", "SCRAM-SHA-256")
    few = ("--alter", "--entity-name", "eve", "--add-config", f"SCRAM-SHA-256=[iterations=4095,password={PASSWORD}]")
    refused = users(secured, tmp_path, *few, check=False)
    assert refused.code != 0 and described() == {"alice": [4096, 8192]}


def test_the_first_user_may_log_in_by_scram_from_the_first_start_on(tmp_path: Path) -> None:
    """No JAAS line, no PLAIN; then `bmq user` adds, lists and deletes others."""
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    }
    data = tmp_path / "data"

    def bmq(*arguments: str, password: str = "", code: int = 0) -> str:
        ran = subprocess.run(
            [bmq_command(), "user", *arguments], input=f"{password}\n", capture_output=True, text=True, check=False
        )
        assert ran.returncode == code, ran
        assert PASSWORD not in ran.stdout + ran.stderr
        return ran.stdout + ran.stderr

    bmq("bootstrap", "root", "--data", str(data), password=PASSWORD)
    assert "is there already" in bmq("bootstrap", "eve", "--data", str(data), password=PASSWORD, code=1)
    server = BmqServer(data, {"BMQ_KAFKA": json.dumps(settings)})
    server.start()
    try:
        login = tmp_path / "login"
        login.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.username=root\n"
            f"sasl.password={PASSWORD}\n"
        )
        where = ("--bootstrap", server.bootstrap, "--kafka", f"@{login}")
        bmq("add", "carol", "--mechanism", "SCRAM-SHA-512", "--iterations", "8192", *where, password=PASSWORD)
        listed = json.loads(bmq("list", "--json", *where))
        assert [(one["user"], one["mechanism"], one["iterations"]) for one in listed] == [
            ("carol", "SCRAM-SHA-512", 8192),
            ("root", "SCRAM-SHA-256", 4096),
            ("root", "SCRAM-SHA-512", 4096),
        ]
        carol = AdminClient(client(server, "SCRAM-SHA-512", "carol"))
        assert carol.list_topics(timeout=20).brokers
        bmq("delete", "carol", "--yes", *where)
        assert "there is no user 'carol'" in bmq("delete", "carol", "--yes", *where, code=1)
        server.stop()
        assert "has been started already" in bmq("bootstrap", "eve", "--data", str(data), password=PASSWORD, code=1)
        assert PASSWORD not in server.log_file.read_text()
    finally:
        server.close()


@pytest.mark.campaign("kafka")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_names_and_passwords_with_signs_of_the_protocols(tmp_path: Path, mechanism: str) -> None:
    """A user made by our command; in by librdkafka, and by kafka-python with PLAIN: it does not escape names for SCRAM."""
    user, password = "a,b=ü 密", "p=,=2C ß\\ 码"
    data = tmp_path / "data"
    command = [bmq_command(), "user", "bootstrap", user, "--data", str(data)]
    subprocess.run(command, input=f"{password}\n", text=True, check=True, capture_output=True)
    server = BmqServer(data, kafka())
    server.start()
    try:
        admin = AdminClient(client(server, mechanism, user, password))
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=20)
        if mechanism == "PLAIN":
            with KafkaProducer(
                bootstrap_servers=server.bootstrap,
                security_protocol="SASL_PLAINTEXT",
                sasl_mechanism=mechanism,
                sasl_plain_username=user,
                sasl_plain_password=password,
            ) as producer:
                producer.send("t", b"in").get(timeout=20)
    finally:
        server.close()
    assert password not in server.log_file.read_text()


def test_sessions_that_end_are_renewed(tmp_path: Path) -> None:
    """librdkafka logs in again before the end of a session of three seconds; users are there after a restart."""
    server = BmqServer(tmp_path / "data", kafka(**{"connections.max.reauth.ms": "3000"}))
    server.start()
    try:
        add = f"SCRAM-SHA-256=[password={PASSWORD}]"
        users(server, tmp_path, "--alter", "--entity-name", "alice", "--add-config", add)
        server.stop()
        server.start()
        errors: list[KafkaError] = []
        producer = Producer({**client(server, "SCRAM-SHA-256"), "error_cb": errors.append})

        def logins() -> float:
            (line,) = [one for one in server.metrics().splitlines() if one.startswith("bmq_authentications_total")]
            return float(line.split()[-1])

        def is_renewed_twice() -> bool:
            """Asked while records are produced: the sessions have to pass in real time."""
            producer.produce("t", b"x")
            assert producer.flush(20) == 0
            return logins() >= before + 2

        producer.produce("t", b"x")
        assert producer.flush(20) == 0
        before = logins()
        eventually(is_renewed_twice, RENEWED_WAIT_S, "the client has logged in again", interval_s=0.1)
        assert [error for error in errors if error.code() == LIBRDKAFKA_AUTHENTICATION] == []
    finally:
        server.close()


def test_a_quota_holds_for_the_user_that_logged_in(secured: BmqServer, tmp_path: Path) -> None:
    users(secured, tmp_path, "--alter", "--entity-name", "alice", "--add-config", "producer_byte_rate=20000")

    def writer(user: str, mechanism: str, password: str) -> Callable[[], bool]:
        """Writes 2.5 s' worth of the quota each time; whether the user was told to wait by then."""
        told: list[float] = []
        settings = client(secured, mechanism, user, password)
        producer = Producer({**settings, "throttle_cb": lambda event: told.append(event.throttle_time)})

        def write() -> bool:
            producer.produce("t", bytes(50_000))
            assert producer.flush(60) == 0
            return max(told, default=0) > 0

        return write

    # 11 s' worth pass at once, and what a slow machine takes its time for.
    eventually(writer("alice", "SCRAM-SHA-256", PASSWORD), TOLD_WAIT_S, "alice is told to wait", interval_s=0)
    by_admin = writer("admin", "PLAIN", ROOT_PASSWORD)
    for _ in range(6):
        assert not by_admin(), "a quota of another user"
    users(secured, tmp_path, "--alter", "--entity-name", "alice", "--delete-config", "producer_byte_rate")
