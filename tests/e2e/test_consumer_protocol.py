"""The consumer protocol of KIP-848 with stock clients: librdkafka, Kafka's Java consumer and its group tools."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from testing.java import CONSOLE_CONSUMER, CONSUMER_GROUPS, java_command
from testing.processes import ManagedProcess, eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, create_topic, unique_name
from tests.support import group_members
from tests.support.group_members import CLASSIC, CONSUMER, Member, closed_at_the_end, read, shared_by
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PARTITIONS = 6
RECORDS = 300
GROUPS = "org.apache.kafka.tools.GroupsCommand"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


def join(server: Server, subscription: str, group: str, *, is_classic: bool = False, **config: object) -> Member:
    return Member(server.bootstrap, subscription, group, {**(CLASSIC if is_classic else CONSUMER), **config})


def fill(server: Server, topic: str, prefix: str) -> Counter[bytes]:
    return group_members.fill(server.bootstrap, topic, PARTITIONS, prefix, RECORDS)


def balanced(members: list[Member]) -> bool:
    return shared_by(members, PARTITIONS)


def evenly_balanced(members: list[Member]) -> bool:
    """On the way there all partitions may be assigned unevenly."""
    return balanced(members) and {len(member.partitions) for member in members} == {PARTITIONS // len(members)}


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_come_and_go(server: Server, make_topic: TopicMaker, assignor: str) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("consumers")
    produced = fill(server, topic, "first")
    members: list[Member] = []
    with closed_at_the_end(members):
        members.append(join(server, topic, group, **{"group.remote.assignor": assignor}))  # type: ignore[arg-type]
        assert read(members, RECORDS) == produced
        members[0].commit()
        for count in (2, 3):
            members.append(join(server, topic, group, **{"group.remote.assignor": assignor}))  # type: ignore[arg-type]
            eventually(lambda: evenly_balanced(members), 40, f"{count} members have as many partitions each")
        produced += fill(server, topic, "second")
        assert read(members, 2 * RECORDS) == produced, "a record was lost or came twice"
        for member in members:
            member.commit()
        members.pop().close()
        eventually(lambda: balanced(members), 40, "the partitions of who left are given to the others")
    offsets = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group}).committed(
        [TopicPartition(topic, number) for number in range(PARTITIONS)], timeout=20
    )
    assert [each.offset for each in offsets] == [100] * PARTITIONS


def test_a_pattern_finds_topics_made_later(server: Server) -> None:
    prefix, group = unique_name("pattern"), unique_name("consumers")
    create_topic(server, f"{prefix}-1", partitions=2)
    members = [join(server, f"^{prefix}-.*", group)]
    with closed_at_the_end(members):
        eventually(lambda: shared_by(members, 2), 40, "the first topic is assigned")
        create_topic(server, f"{prefix}-2", partitions=3)
        eventually(lambda: shared_by(members, 5), 60, "the second topic is assigned as well")


def test_a_static_member_that_returns_gets_its_partitions_back(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("consumers")
    members = [join(server, topic, group, **{"group.instance.id": f"instance-{number}"}) for number in range(2)]  # type: ignore[arg-type]
    with closed_at_the_end(members):
        eventually(lambda: balanced(members), 40, "two static members share the partitions")
        before, others = members[0].partitions, members[1].partitions
        members[0].close()
        members[0] = join(server, topic, group, **{"group.instance.id": "instance-0"})  # type: ignore[arg-type]
        eventually(lambda: balanced(members), 40, "it is back")
        assert members[0].partitions == before
        assert members[1].partitions == others


@pytest.mark.campaign("kafka")
def test_a_group_moves_to_the_consumer_protocol_and_back(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("migrating")
    produced = fill(server, topic, "classic")
    members = [join(server, topic, group, is_classic=True)]
    with closed_at_the_end(members):
        assert read(members, RECORDS) == produced
        members[0].commit()
        members.append(join(server, topic, group))
        eventually(lambda: balanced(members), 60, "a classic and a new member share the partitions")
        assert _type_of(server, group) == "Consumer"
        produced += fill(server, topic, "both")
        assert read(members, 2 * RECORDS) == produced
        for member in members:
            member.commit()
        members.pop().close()
        eventually(lambda: balanced(members), 60, "the classic member has all again")
        assert _type_of(server, group) == "Classic"


def _type_of(server: Server, group: str) -> str:
    listed = run_tool(GROUPS, "--bootstrap-server", server.bootstrap, "--list").out
    found = re.search(rf"^{group}\s+(\S+)", listed, re.MULTILINE)
    assert found is not None, listed
    return found[1]


def test_the_java_consumer_and_its_tools(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("java")
    produced = fill(server, topic, "java")
    lines = run_tool(
        CONSOLE_CONSUMER,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--group", group, "--from-beginning"),
        *("--command-property", "group.protocol=consumer", "--max-messages", "300", "--timeout-ms", "30000"),
    ).out.splitlines()
    assert Counter(line.encode() for line in lines) == produced

    command = java_command(
        VERIFIABLE_CONSUMER,
        [
            *("--bootstrap-server", server.bootstrap, "--topic", topic, "--group-id", group),
            *("--group-protocol", "consumer", "--reset-policy", "earliest"),
        ],
    )
    process = ManagedProcess("verifiable-consumer", command, server.directory.parent / f"{group}.log")
    process.start()
    try:
        eventually(lambda: '"partitions_assigned"' in process.log_file.read_text(), 60, "the consumer is assigned")
        described = _groups(server, "--describe", "--group", group, "--members", "--verbose").out
        assert f"{topic}" in described and "0,1,2,3,4,5" in described.replace(" ", ""), described
        state = _groups(server, "--describe", "--group", group, "--state").out
        assert "Stable" in state and "uniform" in state, state
        lag = _groups(server, "--describe", "--group", group).out
        assert len(re.findall(rf"^{group}\s+{topic}\s+\d+\s+50\s+50\s+0\s", lag, re.MULTILINE)) == PARTITIONS, lag
    finally:
        process.kill()
    lines = process.log_file.read_text().splitlines(keepends=True)
    # The last line of a killed process may be cut.
    events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]
    assert {"startup_complete", "partitions_assigned"} <= {event["name"] for event in events}


def _groups(server: Server, *arguments: str):  # type: ignore[no-untyped-def]
    return run_tool(CONSUMER_GROUPS, "--bootstrap-server", server.bootstrap, *arguments)


def test_admin_clients_see_and_delete_it(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("consumers")
    members = [join(server, topic, group)]
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    with closed_at_the_end(members):
        eventually(lambda: balanced(members), 40, "one member has all partitions")
        described = admin.describe_consumer_groups([group])[group].result(timeout=20)
        assert described.state.name == "STABLE"
        assert len(described.members) == 1
        assert len(described.members[0].assignment.topic_partitions) == PARTITIONS
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups([group])[group].result(timeout=20)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    eventually(
        lambda: admin.describe_consumer_groups([group])[group].result(timeout=20).state.name == "EMPTY",
        20,
        "the group is empty",
    )
    admin.delete_consumer_groups([group])[group].result(timeout=20)
    listed = admin.list_consumer_groups().result(timeout=20).valid
    assert group not in {each.group_id for each in listed}
