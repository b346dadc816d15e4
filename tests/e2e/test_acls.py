"""ACLs with stock clients: what is denied is answered as by Kafka, and nothing tells that a hidden topic exists."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from typer.testing import CliRunner

from bmq.cli.commands import app
from testing.java import run_tool
from testing.processes import eventually
from testing.servers import BmqServer
from tests.e2e.conftest import unique_name

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only]

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACL_TOOL = "org.apache.kafka.tools.AclCommand"
ANONYMOUS = "User:ANONYMOUS"
WAIT_S = 30
CLIENT_WAIT_S = 30.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[BmqServer]:
    """With an authorizer; what has no ACL is open to everybody."""
    made = BmqServer(
        tmp_path / "server",
        {
            "BMQ_KAFKA": f'{{"authorizer.class.name": "{AUTHORIZER}", "allow.everyone.if.no.acl.found": "true"}}',
        },
    )
    made.start()
    try:
        yield made
    finally:
        made.close()


def topic_acl(
    topic: str, operation: AclOperation, *, principal: str = ANONYMOUS, pattern: str = "LITERAL"
) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, topic, ResourcePatternType[pattern], principal, "*", operation, AclPermissionType.ALLOW
    )


def create(admin: AdminClient, *names: str) -> None:
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result(WAIT_S)


def grant(admin: AdminClient, *bindings: AclBinding) -> None:
    for made in admin.create_acls(list(bindings)).values():
        made.result(WAIT_S)


def produced(server: BmqServer, *topics: str) -> dict[str, int]:
    """The code of a record to each topic."""
    found: dict[str, int] = {}
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for topic in topics:
        producer.produce(
            topic,
            b"x",
            on_delivery=lambda error, message: found.update({message.topic(): error.code() if error else 0}),
        )
    assert producer.flush(CLIENT_WAIT_S) == 0
    return found


def test_topics_of_others_are_neither_written_nor_read_nor_seen(server: BmqServer) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    create(admin, "mine", "theirs", "shared-1")
    grant(
        admin,
        topic_acl("theirs", AclOperation.READ, principal="User:bob"),
        topic_acl("shared-", AclOperation.WRITE, pattern="PREFIXED"),
    )
    denied = KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert produced(server, "mine", "theirs", "shared-1") == {"mine": 0, "theirs": denied, "shared-1": 0}
    assert sorted(admin.list_topics(timeout=CLIENT_WAIT_S).topics) == ["mine", "shared-1"]
    named = admin.list_topics("theirs", timeout=CLIENT_WAIT_S).topics["theirs"]
    assert named.error is not None and named.error.code() == denied and not named.partitions
    assert refused_reads(server, "theirs", "shared-1") == {denied}
    server.stop()
    log = server.log_file.read_text()
    assert "Principal = User:ANONYMOUS is Denied operation = WRITE from host = 127.0.0.1" not in log  # never asked to
    assert "is Denied operation = DESCRIBE from host = 127.0.0.1 on resource = Topic:LITERAL:theirs" in log


def refused_reads(server: BmqServer, *topics: str) -> set[int]:
    """Codes that a consumer of these topics gets."""
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(list(topics))

    def code() -> int:
        message = consumer.poll(0.2)
        error = None if message is None else message.error()
        return 0 if error is None else int(error.code())

    try:
        return {eventually(code, CLIENT_WAIT_S, "the consumer is refused")}
    finally:
        consumer.close()


def assigned_topics(bootstrap: str, regex: str, **more: object) -> set[str]:
    """What a member of a group of its own gets that subscribes to a regular expression, which the server resolves."""
    settings = {"bootstrap.servers": bootstrap, "group.id": unique_name("regex"), "group.protocol": "consumer", **more}
    consumer = Consumer(settings)
    consumer.subscribe([regex])

    def topics() -> set[str]:
        consumer.poll(0.2)
        return {one.topic for one in consumer.assignment()}

    try:
        return eventually(topics, CLIENT_WAIT_S, f"topics that {regex} matches")
    finally:
        consumer.close()


def test_a_regular_expression_does_not_match_topics_of_others(server: BmqServer) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    create(admin, "part-mine", "part-theirs", "part-shared")
    grant(
        admin,
        topic_acl("part-theirs", AclOperation.READ, principal="User:bob"),
        topic_acl("part-shared", AclOperation.READ),
    )
    assert assigned_topics(server.bootstrap, "^part-.*") == {"part-mine", "part-shared"}
    assert "part-theirs for request = ConsumerGroupHeartbeat" not in server.log_file.read_text()  # nobody named it


def test_acls_are_described_deleted_and_survive_a_restart(server: BmqServer) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    create(admin, "t")
    bindings = [topic_acl("t", AclOperation.READ, principal="User:bob"), topic_acl("t", AclOperation.DESCRIBE)]
    grant(admin, *bindings)
    grant(admin, *bindings)  # what is there already succeeds and is not there twice
    server.stop()
    server.start()
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    assert sorted(map(str, admin.describe_acls(everything).result(WAIT_S))) == sorted(map(str, bindings))
    assert produced(server, "t") == {"t": KafkaError.TOPIC_AUTHORIZATION_FAILED}
    (deleted,) = (one.result(WAIT_S) for one in admin.delete_acls([everything]).values())
    assert len(deleted) == 2
    assert produced(server, "t") == {"t": 0}


def test_kafkas_own_tool_adds_lists_and_removes(server: BmqServer) -> None:
    bootstrap = ("--bootstrap-server", server.bootstrap)
    run_tool(
        ACL_TOOL,
        *bootstrap,
        *("--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders", "--group", "g"),
    )
    listed = run_tool(ACL_TOOL, *bootstrap, "--list").out
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in listed
    assert "resourceType=GROUP, name=g" in listed and "resourceType=TOPIC, name=orders" in listed
    run_tool(ACL_TOOL, *bootstrap, "--remove", "--force", "--topic", "orders")
    assert "orders" not in run_tool(ACL_TOOL, *bootstrap, "--list").out


def test_without_an_authorizer_there_are_no_acls(tmp_path: Path) -> None:
    server = BmqServer(tmp_path / "open")
    server.start()
    try:
        done = run_tool(ACL_TOOL, "--bootstrap-server", server.bootstrap, "--list", check=False)
        assert "No Authorizer is configured on the broker" in done.text
        removal = ("--remove", "--force", "--topic", "t", "--allow-principal", "User:anna")
        done = run_tool(ACL_TOOL, "--bootstrap-server", server.bootstrap, *removal, check=False)
        assert "No Authorizer is configured." in done.text
    finally:
        server.close()


def test_our_command_changes_what_clients_and_rest_may(server: BmqServer) -> None:
    def bmq_acl(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["acl", *arguments, "--bootstrap", server.bootstrap])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output

    def rest(method: str, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=WAIT_S)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    create(admin, "mine", "theirs")
    assert rest("GET", "/v1/topics/theirs")[0] == 200
    assert "added 1 ACL" in bmq_acl("add", "--allow", "User:bob", "-o", "read", "--topic", "theirs")
    assert "User:bob" in bmq_acl("list", "--topic", "theirs")
    assert produced(server, "mine", "theirs") == {"mine": 0, "theirs": KafkaError.TOPIC_AUTHORIZATION_FAILED}
    assert rest("GET", "/v1/topics/theirs")[0] == 403
    status, listed = rest("GET", "/v1/topics")
    assert status == 200 and "mine" in listed and "theirs" not in listed
    assert "removed 1 ACL" in bmq_acl("remove", "--topic", "theirs")
    assert produced(server, "theirs") == {"theirs": 0}
    assert rest("POST", "/v1/rebalance")[0] == 409  # this server is the whole cluster
    bmq_acl("add", "--deny", ANONYMOUS, "-o", "alter", "--cluster")
    assert rest("POST", "/v1/rebalance")[0] == 403
    result = CliRunner().invoke(app, ["acl", "remove", "--all", "--bootstrap", server.bootstrap])
    assert result.exit_code == 1 and "uthorization failed" in str(result.exception), result.output
