"""The Databus agent beside a real server: what it accepted lands exactly once, whatever is killed."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from bmq.databus.v1 import databus_pb2
from testing.patience import Patience
from testing.processes import REPOSITORY, eventually
from testing.servers import BmqServer, bmq_command
from tests.e2e.conftest import create_topic
from tests.support.databus_agents import AgentProcess, Application, Producers
from tests.support.secured_server import SSL, Door, SecuredServer

PARTITIONS = 3
TOPIC = "landed"
CHANNEL = "orders"

pytestmark = [pytest.mark.timeout(180), pytest.mark.bmq_only]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BmqServer]:
    server = BmqServer(tmp_path / "data")
    server.start()
    yield server
    server.close()


@pytest.fixture
def agent(node: BmqServer, tmp_path: Path) -> Iterator[AgentProcess]:
    made = AgentProcess(tmp_path / "agent", node.bootstrap, node.rest_port)
    yield made
    made.close()


def put_channel(node: BmqServer, name: str = CHANNEL, **more: Any) -> int:
    """Returns the version of the change."""
    body = {"name": name, "topic": TOPIC, **more}
    request = urllib.request.Request(
        f"http://127.0.0.1:{node.rest_port}/v1/channels/{name}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    with urllib.request.urlopen(request, timeout=Patience(30).limit_s) as response:
        version: int = json.load(response)["version"]
        return version


def post(agent: AgentProcess, channel: str, body: bytes, kind: str = "application/octet-stream") -> tuple[int, Any]:
    request = urllib.request.Request(
        f"http://{agent.http}/v1/channels/{channel}", body, {"Content-Type": kind}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=Patience(30).limit_s) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def landed(
    node: BmqServer, topic: str = TOPIC, partitions: int = PARTITIONS, security: Mapping[str, Any] | None = None
) -> list[bytes]:
    """Values of all committed records. `security`: settings of a client that may read them."""
    consumer = Consumer(
        {
            "bootstrap.servers": node.bootstrap,
            **(security or {}),
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found: list[bytes] = []
    ended: set[int] = set()

    def is_read() -> bool:
        for message in consumer.consume(5_000, timeout=0.5):
            error = message.error()
            if error is None:
                found.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
        return len(ended) == partitions

    eventually(is_read, 60, "all partitions are read", interval_s=0)
    consumer.close()
    return found


def wait_for_version(agent: AgentProcess, version: int) -> None:
    eventually(lambda: agent.status()["channels_version"] >= version, 30, f"the agent uses version {version}", 0.01)


def kill_under_load(node: BmqServer, agent: AgentProcess, victims: Sequence[Sequence[Any]]) -> None:
    """Kill each group of victims and start it again, under load; then every accepted record has landed once."""
    create_topic(node, TOPIC, PARTITIONS)
    version = put_channel(node, linger_ms=20)
    agent.start()
    wait_for_version(agent, version)
    applications = [Application(f"app{number}", agent.socket, CHANNEL) for number in range(3)]
    try:
        for group in victims:
            for each in applications:
                each.wait_for_accepted(500, 60)
            for victim in group:
                victim.kill()
            if agent in group:
                agent.start()  # also without the cluster
            if node in group:
                applications[0].wait_for_accepted(500, 60)  # the cluster is away, and the agent takes records
                node.start()
        for each in applications:
            each.wait_for_accepted(500, 60)
    finally:
        for each in applications:
            each.finish()
    agent.wait_until_empty(120)
    assert agent.stop() == 0
    counts = Counter(landed(node))
    accepted = set().union(*(each.accepted for each in applications))
    assert accepted - counts.keys() == set(), "lost"
    assert {value: count for value, count in counts.items() if count > 1} == {}, "doubled"
    assert all(each.refused == [] for each in applications)
    assert len(counts) <= sum(each.sent for each in applications)


@pytest.mark.faults
@pytest.mark.safety
def test_kills_of_agent_and_node_lose_and_double_nothing(node: BmqServer, agent: AgentProcess) -> None:
    kill_under_load(node, agent, [[agent], [node], [Producers(agent)], [agent, node]])


@pytest.mark.campaign("kills")
@pytest.mark.safety
@pytest.mark.timeout(1_200)
def test_fifty_kills_lose_and_double_nothing(node: BmqServer, agent: AgentProcess) -> None:
    kill_under_load(node, agent, [[agent], [node], [Producers(agent)], [agent], [agent, node]] * 10)


@pytest.mark.clients
def test_a_change_of_a_channel_counts_at_once_and_loses_nothing(node: BmqServer, agent: AgentProcess) -> None:
    create_topic(node, TOPIC, PARTITIONS)
    create_topic(node, "other", 1)
    put_channel(node)
    agent.start()
    wait_for_version(agent, 1)
    assert post(agent, CHANNEL, b"first")[0] == 200
    application = Application("app", agent.socket, CHANNEL)
    application.wait_for_accepted(200, 30)
    wait_for_version(agent, put_channel(node, topic="other"))
    status, answer = post(agent, CHANNEL, b'{"value": "a"}\n{"value": {"b": 1}}\n', "application/x-ndjson")
    assert (status, answer["accepted"]) == (200, 2)
    application.finish()
    wait_for_version(agent, put_channel(node, topic="other", enabled=False))
    status, answer = post(agent, CHANNEL, b"refused")
    assert (status, answer["detail"]) == (409, "the channel orders is disabled")
    agent.wait_until_empty(60)
    values = landed(node)
    others = landed(node, "other", 1)
    assert b"first" in values
    assert {b"a", b'{"b":1}'} <= set(others)
    assert Counter(value for value in values + others if value.startswith(b"app")) == Counter(application.accepted)
    assert application.refused == []
    assert 'bmq_databus_refused_records_total{channel="orders",code="CHANNEL_DISABLED"} 1.0' in agent.metrics()
    shown = subprocess.run(
        [
            bmq_command(), "databus", "tail", CHANNEL, "--last", "2", "--limit", "2", "--values",
            "--rest", f"http://127.0.0.1:{node.rest_port}", "--bootstrap", node.bootstrap,
        ],
        capture_output=True, timeout=Patience(60).limit_s, check=True,
    )  # fmt: skip
    assert shown.stdout.split() == others[-2:]


@pytest.mark.clients
def test_records_of_a_deleted_topic_wait_and_those_of_others_go_on(node: BmqServer, agent: AgentProcess) -> None:
    create_topic(node, TOPIC, PARTITIONS)
    create_topic(node, "gone", 1)
    put_channel(node)
    version = put_channel(node, "doomed", topic="gone", linger_ms=2_000)
    agent.start()
    wait_for_version(agent, version)
    admin = AdminClient({"bootstrap.servers": node.bootstrap})
    admin.delete_topics(["gone"])["gone"].result(30)
    assert post(agent, "doomed", b"waits")[0] == 200
    assert post(agent, CHANNEL, b"goes on")[0] == 200
    eventually(lambda: landed(node) == [b"goes on"], 60, "the record of the other topic lands")
    eventually(lambda: post(agent, "doomed", b"late")[0] != 200, 60, "the agent knows")
    status, answer = post(agent, "doomed", b"later")
    assert status == 409
    assert answer["code"] == "TOPIC_REFUSED"
    assert "the topic gone" in answer["detail"]
    create_topic(node, "gone", 1)
    eventually(lambda: b"waits" in landed(node, "gone", 1), 90, "the record lands once its topic is there")
    assert Counter(landed(node, "gone", 1))[b"waits"] == 1


@pytest.mark.clients
def test_a_record_with_a_wrong_timestamp_is_set_aside_and_others_go_on(node: BmqServer, agent: AgentProcess) -> None:
    create_topic(node, TOPIC, PARTITIONS)
    version = put_channel(node)
    agent.start()
    wait_for_version(agent, version)
    lines = b'{"value": "of the year 2100", "timestamp_ms": 4102444800000}\n{"value": "of now"}\n'
    assert post(agent, CHANNEL, lines, "application/x-ndjson")[0] == 200
    agent.wait_until_empty(60)
    assert landed(node) == [b"of now"]
    assert 'bmq_databus_cluster_refused_records_total{lane="lz4"} 1.0' in agent.metrics()


@pytest.mark.clients
def test_the_clients_of_the_documentation(node: BmqServer, agent: AgentProcess, tmp_path: Path) -> None:
    create_topic(node, TOPIC, PARTITIONS)
    version = put_channel(node)
    agent.start()
    wait_for_version(agent, version)
    program = tmp_path / "client"
    docs = REPOSITORY / "docs"
    subprocess.run(
        ["cc", "-Wall", "-Wextra", "-Werror", "-O1", "-o", str(program), str(docs / "databus_client.c")], check=True
    )
    for client, name in (([sys.executable, str(docs / "databus_client.py")], b"py"), ([str(program)], b"c")):
        lines = b"".join(b"%s-%d\n" % (name, number) for number in range(20))
        ran = subprocess.run(
            [*client, str(agent.socket), CHANNEL],
            input=lines,
            capture_output=True,
            timeout=Patience(60).limit_s,
            check=True,
        )
        assert [line.split()[0] for line in ran.stdout.splitlines()] == [b"0"] * 20
        ran = subprocess.run(
            [*client, str(agent.socket), "none"],
            input=b"x\n",
            capture_output=True,
            timeout=Patience(60).limit_s,
            check=True,
        )
        assert ran.stdout.startswith(b"20 ")
        assert b"there is no channel 'none'" in ran.stdout
    agent.wait_until_empty(60)
    wanted = [b"%s-%d" % (name, number) for name in (b"py", b"c") for number in range(20)]
    assert sorted(landed(node)) == sorted(wanted)


@pytest.mark.clients
@pytest.mark.safety
def test_records_by_grpc_land_once_after_a_kill(node: BmqServer, tmp_path: Path) -> None:
    create_topic(node, TOPIC, PARTITIONS)
    version = put_channel(node)
    agent = AgentProcess(tmp_path / "agent", node.bootstrap, node.rest_port, more=["--grpc", "127.0.0.1:0"])
    service, wait_s = "/bmq.databus.v1.Databus/", Patience(60).limit_s
    write, read = databus_pb2.ProduceRequest.SerializeToString, databus_pb2.ProduceResponse.FromString

    def request(channel: str, *values: bytes) -> databus_pb2.ProduceRequest:
        records = [databus_pb2.Record(value=value) for value in values]
        return databus_pb2.ProduceRequest(channel=channel, records=records)

    try:
        agent.start()
        wait_for_version(agent, version)
        with grpc.insecure_channel(agent.grpc) as door:
            unary = door.unary_unary(f"{service}Produce", write, read)
            assert unary(request(CHANNEL, b"a", b"b"), timeout=wait_s).accepted == 2
            with pytest.raises(grpc.RpcError) as refused:
                unary(request("none", b"x"), timeout=wait_s)
            assert refused.value.code() is grpc.StatusCode.NOT_FOUND
            sent = [request(CHANNEL, b"s%d" % number) for number in range(200)]
            stream = door.stream_stream(f"{service}ProduceStream", write, read)
            answers = [answer.accepted for answer in stream(iter(sent), timeout=wait_s)]
            assert answers == [1] * len(sent)
        eventually(lambda: "bmq_databus_grpc_open_calls 0.0" in agent.metrics(), 30, "the agent has ended the calls")
        agent.kill()
        agent.start()
        agent.wait_until_empty(60)
        wanted = [b"a", b"b", *(b"s%d" % number for number in range(200))]
        assert sorted(landed(node)) == sorted(wanted)
        assert agent.stop() == 0
    finally:
        agent.close()


RIGHTS = [
    (ResourceType.TOPIC, TOPIC, ResourcePatternType.LITERAL, AclOperation.WRITE),
    (ResourceType.TRANSACTIONAL_ID, "bmq-databus-", ResourcePatternType.PREFIXED, AclOperation.WRITE),
    (ResourceType.TRANSACTIONAL_ID, "bmq-databus-", ResourcePatternType.PREFIXED, AclOperation.DESCRIBE),
    (ResourceType.GROUP, "bmq-databus-", ResourcePatternType.PREFIXED, AclOperation.READ),
    (ResourceType.TOPIC, "bmq-databus-positions", ResourcePatternType.LITERAL, AclOperation.READ),
    (ResourceType.TOPIC, "bmq-databus-positions", ResourcePatternType.LITERAL, AclOperation.CREATE),
]
"""Those that docs/DATABUS.md asks for, at the Kafka listener."""


@pytest.mark.clients
def test_an_agent_with_tls_needs_the_rights_of_the_page_and_no_more(tmp_path: Path) -> None:
    server = SecuredServer(tmp_path / "data", {"super.users": "User:alice;User:ANONYMOUS"})  # REST has no logins here
    door = Door(SSL)
    server.make_user()
    server.start()
    agent = None
    try:
        admin = AdminClient(server.librdkafka(door))
        for made in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1), NewTopic("closed", 1, 1)]).values():
            made.result(30)
        bindings = [AclBinding(*right[:3], "User:databus", "*", right[3], AclPermissionType.ALLOW) for right in RIGHTS]
        for granted in admin.create_acls(bindings).values():
            granted.result(30)
        put_channel(server)
        version = put_channel(server, "closed", topic="closed")
        certificate = json.dumps(str(server.issue("databus")))
        config = server.write(
            "databus.toml",
            f"""[kafka]
"security.protocol" = "SSL"
"ssl.ca.location" = {json.dumps(str(server.trust))}
"ssl.certificate.location" = {certificate}
"ssl.key.location" = {certificate}
""".encode(),
        )
        agent = AgentProcess(tmp_path / "agent", server.bootstrap_of(door), server.rest_port, config)
        agent.start()
        wait_for_version(agent, version)
        assert post(agent, "closed", b"no right")[0] == 200
        assert post(agent, CHANNEL, b"with rights")[0] == 200
        security = server.librdkafka(door)
        eventually(lambda: landed(server, security=security) == [b"with rights"], 60, "the record lands")
        eventually(lambda: post(agent, "closed", b"late")[0] == 409, 60, "the agent knows of the missing right")
        assert "the topic closed" in post(agent, "closed", b"later")[1]["detail"]
    finally:
        if agent is not None:
            agent.close()
        server.close()
