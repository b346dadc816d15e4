"""kafka-topics, kafka-configs, kafka-consumer-groups, kafka-get-offsets, kafka-delete-records and their like."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from testing.java import (
    BROKER_API_VERSIONS,
    CLIENT_METRICS,
    CLUSTER,
    CONFIGS,
    CONSUMER_GROUPS,
    DELETE_RECORDS,
    FEATURES,
    GET_OFFSETS,
    LOG_DIRS,
    METADATA_QUORUM,
    TOPICS,
    ToolResult,
)
from testing.processes import eventually
from testing.servers import Bootstrap, Server
from tests.e2e.conftest import ServerMaker, TopicMaker, unique_name
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]


def fill(server: Bootstrap, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(20) == 0


def commit(server: Server, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False})
    positions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()


def topics(server: Server, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool(TOPICS, "--bootstrap-server", server.bootstrap, *arguments, check=check)


def configs(server: Server, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool(CONFIGS, "--bootstrap-server", server.bootstrap, *arguments, check=check)


def groups(server: Server, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool(CONSUMER_GROUPS, "--bootstrap-server", server.bootstrap, *arguments, check=check)


def group_rows(server: Bootstrap, group: str) -> dict[int, tuple[str, str, str]]:
    """Partition -> (current offset, log end offset, lag), as kafka-consumer-groups prints them."""
    out = groups(server, "--describe", "--group", group).out  # type: ignore[arg-type]
    rows = [line.split() for line in out.splitlines() if line.startswith(group)]
    return {int(row[2]): (row[3], row[4], row[5]) for row in rows}


def test_topic_life(server: Server) -> None:
    topic = unique_name("life")
    made = topics(server, "--create", "--topic", topic, "--partitions", "3", "--config", "retention.ms=3600000")
    assert f"Created topic {topic}." in made.out
    assert topic in topics(server, "--list").out.split()

    described = topics(server, "--describe", "--topic", topic).out
    assert re.search(rf"Topic: {topic}\s+TopicId: \S{{22}}\s+PartitionCount: 3\s+ReplicationFactor: 1", described)
    assert "retention.ms=3600000" in described
    assert len(re.findall(r"Partition: \d\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", described)) == 3

    topics(server, "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in topics(server, "--describe", "--topic", topic).out

    topics(server, "--delete", "--topic", topic)
    eventually(lambda: topic not in topics(server, "--list").out.split(), 20, "the topic is gone")


def test_topic_id_changes_when_a_topic_is_made_again(server: Server) -> None:
    topic = unique_name("again")
    ids = []
    for _ in range(2):
        topics(server, "--create", "--topic", topic)
        ids.append(re.search(r"TopicId: (\S+)", topics(server, "--describe", "--topic", topic).out)[1])  # type: ignore[index]
        topics(server, "--delete", "--topic", topic)
        eventually(lambda: topic not in topics(server, "--list").out.split(), 20, "the topic is gone")
    assert ids[0] != ids[1]


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        (["--topic", "no/slash"], "InvalidTopicException", "no/slash"),
        (["--topic", "many-replicas", "--replication-factor", "7"], "InvalidReplicationFactorException", "7"),
    ],
)
def test_bad_topics_are_refused_by_name(server: Server, arguments: list[str], error: str, named: str) -> None:
    refused = topics(server, "--create", *arguments, check=False)
    assert refused.code != 0
    assert named in refused.text
    assert error in refused.text, refused.text


def test_creating_twice_and_shrinking_are_refused(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=2)
    assert f"Topic '{topic}' already exists" in topics(server, "--create", "--topic", topic, check=False).text
    shrunk = topics(server, "--alter", "--topic", topic, "--partitions", "1", check=False)
    assert shrunk.code != 0
    assert "InvalidPartitionsException" in shrunk.text


def test_topic_configs_are_described_and_altered(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic()
    entity = ("--entity-type", "topics", "--entity-name", topic)
    configs(server, "--alter", *entity, "--add-config", "retention.ms=86400000,max.message.bytes=2000000")
    described = configs(server, "--describe", *entity).out
    assert "retention.ms=86400000" in described
    assert "max.message.bytes=2000000" in described

    configs(server, "--alter", *entity, "--delete-config", "max.message.bytes")
    described = configs(server, "--describe", *entity).out
    assert "retention.ms=86400000" in described
    assert "max.message.bytes" not in described

    everything = configs(server, "--describe", "--all", *entity).out
    for name in ("cleanup.policy=delete", "compression.type=producer", "segment.bytes=", "min.insync.replicas=1"):
        assert name in everything

    refused = configs(server, "--alter", *entity, "--add-config", "retention.ms=eternity", check=False)
    assert refused.code != 0
    assert "eternity" in refused.text


def test_what_has_configs_is_listed(server: Server, make_topic: TopicMaker) -> None:
    """Both tools ask for a list first (ListConfigResources), and end with an error where that is not served."""
    topic = make_topic()
    listed = run_tool(CLIENT_METRICS, "--bootstrap-server", server.bootstrap, "--list")
    assert (listed.code, listed.out.strip()) == (0, "")
    described = configs(server, "--describe", "--entity-type", "client-metrics")
    assert (described.code, topic in described.out) == (0, False)


def test_subscriptions_to_clients_metrics_are_made_described_and_deleted(server: Server) -> None:
    def tool(*arguments: str, check: bool = True) -> ToolResult:
        return run_tool(CLIENT_METRICS, "--bootstrap-server", server.bootstrap, *arguments, check=check)

    name = unique_name("subscription")
    # Nobody matches it: clients of other tests are not to be asked.
    made = tool("--alter", "--name", name, "--metrics", "a.,b.", "--interval", "5000", "--match", "client_id=nobody")
    assert f"Altered client metrics config for {name}." in made.out
    described = tool("--describe", "--name", name).out
    assert [line.strip() for line in described.strip().splitlines()] == [
        f"Client metrics configs for {name} are:",
        "interval.ms=5000",
        "match=client_id=nobody",
        "metrics=a.,b.",
    ]
    refused = tool("--alter", "--name", name, "--match", "nonsense", check=False)
    assert (refused.code, "Illegal client matching pattern: nonsense" in refused.text) == (1, True)
    assert f"Deleted client metrics config for {name}." in tool("--delete", "--name", name).out
    assert name not in tool("--list").out


def test_broker_configs_are_described_and_altered(server: Server) -> None:
    entity = ("--entity-type", "brokers", "--entity-name", "1")
    everything = configs(server, "--describe", "--all", *entity).out
    assert re.search(r"node\.id=1|broker\.id=1", everything), everything[:2_000]
    assert "log.retention.ms=" in everything
    configs(server, "--alter", *entity, "--add-config", "log.retention.ms=123456789")
    assert "log.retention.ms=123456789" in configs(server, "--describe", *entity).out
    configs(server, "--alter", *entity, "--delete-config", "log.retention.ms")
    assert "123456789" not in configs(server, "--describe", *entity).out


def test_group_offsets_are_listed_described_reset_and_deleted(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=2), unique_name("group")
    fill(server, topic, 10)
    commit(server, group, topic, {0: 4, 1: 0})
    assert group in groups(server, "--list").out.split()
    assert group_rows(server, group) == {0: ("4", "10", "6"), 1: ("0", "0", "0")}
    state = groups(server, "--describe", "--group", group, "--state").out
    assert "Empty" in state, state

    reset = ("--reset-offsets", "--group", group, "--topic", topic)
    dry = groups(server, *reset, "--to-earliest", "--dry-run").out
    assert re.search(rf"{topic}\s+0\s+0", dry), dry
    assert group_rows(server, group)[0][0] == "4", "a dry run changed the offset"
    groups(server, *reset, "--shift-by", "3", "--execute")
    assert group_rows(server, group)[0] == ("7", "10", "3")
    groups(server, *reset, "--to-latest", "--execute")
    assert group_rows(server, group)[0] == ("10", "10", "0")

    groups(server, "--delete-offsets", "--group", group, "--topic", f"{topic}:1")
    assert 1 not in {partition for partition, row in group_rows(server, group).items() if row[0] != "-"}

    deleted = groups(server, "--delete", "--group", group)
    assert "successful" in deleted.out
    assert group not in groups(server, "--list").out.split()


def test_members_of_a_live_group_are_described(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("live")
    fill(server, topic, 1)
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": group,
            "client.id": "a-member",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    try:
        assert eventually(lambda: consumer.poll(1), 20, "a record").value() == b"0"
        members = groups(server, "--describe", "--group", group, "--members", "--verbose").out
        assert re.search(rf"{group}\s+\S+\s+/?127\.0\.0\.1\s+a-member\s+1\s+.*{topic}", members), members
        assert "Stable" in groups(server, "--describe", "--group", group, "--state").out
        refused = groups(server, "--delete", "--group", group, check=False)
        assert "GroupNotEmptyException" in refused.text, refused.text
    finally:
        consumer.close()


def test_unknown_group_is_said_to_be_unknown(server: Server) -> None:
    group = unique_name("nobody")
    described = groups(server, "--describe", "--group", group, check=False)
    assert f"Consumer group '{group}' does not exist" in described.text or "GroupIdNotFound" in described.text


def test_offsets_by_position_and_deleted_records(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic = make_topic(partitions=2)
    fill(server, topic, 8, partition=0)
    fill(server, topic, 3, partition=1)

    def offsets(*arguments: str) -> list[str]:
        bootstrap = ("--bootstrap-server", server.bootstrap)
        return sorted(run_tool(GET_OFFSETS, *bootstrap, "--topic", topic, *arguments).out.split())

    assert offsets() == [f"{topic}:0:8", f"{topic}:1:3"]
    assert offsets("--time", "-2") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("--time", "latest", "--partitions", "1") == [f"{topic}:1:3"]
    assert offsets("--time", "0") == [f"{topic}:0:0", f"{topic}:1:0"]

    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 5}]}))
    deleted = run_tool(DELETE_RECORDS, "--bootstrap-server", server.bootstrap, "--offset-json-file", str(plan))
    assert re.search(rf"partition: {topic}-0\s+low_watermark: 5", deleted.out), deleted.out
    assert offsets("--time", "earliest") == [f"{topic}:0:5", f"{topic}:1:0"]
    assert offsets() == [f"{topic}:0:8", f"{topic}:1:3"]


def test_api_versions_are_listed(server: Server) -> None:
    listed = run_tool(BROKER_API_VERSIONS, "--bootstrap-server", server.bootstrap).out
    for name, number in (("Produce", 0), ("Fetch", 1), ("Metadata", 3), ("OffsetCommit", 8), ("DescribeCluster", 60)):
        assert re.search(rf"{name}\({number}\): \d+( to \d+)? \[usable: \d+\]", listed), f"{name} in {listed}"


def test_cluster_id_is_told(server: Server) -> None:
    told = run_tool(CLUSTER, "cluster-id", "--bootstrap-server", server.bootstrap).out
    assert re.search(r"Cluster ID: \S{16,}", told), told


def test_log_directories_are_described(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=2)
    fill(server, topic, 1, partition=0)
    fill(server, topic, 5, partition=1)

    def described() -> dict[str, int]:
        out = run_tool(LOG_DIRS, "--bootstrap-server", server.bootstrap, "--describe", "--topic-list", topic).out
        (answer,) = (json.loads(line) for line in out.splitlines() if line.startswith("{"))
        (broker,) = answer["brokers"]
        (directory,) = broker["logDirs"]
        assert directory["error"] is None
        return {partition["partition"]: partition["size"] for partition in directory["partitions"]}

    sizes = described()
    assert sizes[f"{topic}-1"] > sizes[f"{topic}-0"] > 0


def test_the_metadata_log_is_described(server: Server) -> None:
    def told(*arguments: str) -> str:
        return run_tool(METADATA_QUORUM, "--bootstrap-server", server.bootstrap, "describe", *arguments).out

    status = told("--status")
    assert re.search(r"LeaderId:\s+1\n", status), status
    assert re.search(r"HighWatermark:\s+[1-9]\d*\n", status), status
    assert re.search(r'CurrentVoters:\s+\[\{"id": 1,', status), status
    replication = told("--replication")
    assert re.search(r"^1\s+\S+\s+\d+\s+0\s+\d+\s+\d+\s+Leader", replication, re.MULTILINE), replication


@pytest.mark.timeout(300)
def test_features_are_described_lowered_and_raised(new_server: ServerMaker) -> None:
    server = new_server()
    server.start()

    def features(*arguments: str, check: bool = True) -> ToolResult:
        return run_tool(FEATURES, "--bootstrap-server", server.bootstrap, *arguments, check=check)

    def level(name: str) -> int:
        found = re.search(rf"Feature: {name}\s.*FinalizedVersionLevel: (\d+)", features("describe").out)
        assert found is not None
        return int(found[1])

    assert level("transaction.version") == 2
    refused = features("upgrade", "--feature", "transaction.version=9", check=False)
    assert refused.code != 0
    assert "Invalid update version 9 for feature transaction.version." in refused.text, refused.text
    assert "only supports versions 0-2" in refused.text
    refused = features("upgrade", "--feature", "transaction.version=1", check=False)
    assert "Can't downgrade the version of this feature without setting the upgrade type" in refused.text
    assert level("transaction.version") == 2
    dry = features("downgrade", "--feature", "transaction.version=1", "--dry-run").out
    assert "transaction.version can be downgraded to 1." in dry, dry
    assert level("transaction.version") == 2
    features("downgrade", "--feature", "transaction.version=1")
    eventually(lambda: level("transaction.version") == 1, 20, "the lower level is told")
    server.stop()
    server.start()
    assert level("transaction.version") == 1
    features("upgrade", "--feature", "transaction.version=2")
    eventually(lambda: level("transaction.version") == 2, 20, "the higher level is told")
