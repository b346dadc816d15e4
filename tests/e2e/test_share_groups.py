"""Share groups through Kafka's own tools: console, verifiable and performance share consumers, and kafka-share-groups."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
from confluent_kafka import Producer

from testing.java import CONFIGS
from testing.java import run_tool as run_in_own_jvm
from testing.patience import Patience
from testing.servers import BmqServer, Server, bmq_command
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

CONSOLE_SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
VERIFIABLE_SHARE_CONSUMER = "org.apache.kafka.tools.VerifiableShareConsumer"
SHARE_CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ShareConsumerPerformance"
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"


def produce(server: Server, topic: str, values: list[str], partitions: int = 1) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % partitions)
    assert producer.flush(20) == 0


def group_from_the_beginning(server: Server) -> str:
    group = unique_name("share")
    run_tool(
        CONFIGS,
        *("--bootstrap-server", server.bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "share.auto.offset.reset=earliest"),
    )
    return group


def consume(server: Server, topic: str, group: str, count: int, *arguments: str) -> list[str]:
    done = run_tool(
        CONSOLE_SHARE_CONSUMER,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--group", group),
        *("--max-messages", str(count), "--timeout-ms", "30000", *arguments),
    )
    return done.out.splitlines()


def described(server: Server, group: str, *arguments: str) -> list[list[str]]:
    done = run_tool(SHARE_GROUPS, "--bootstrap-server", server.bootstrap, "--describe", "--group", group, *arguments)
    return [line.split() for line in done.out.splitlines() if line.startswith(group)]


def test_a_group_takes_each_record_once(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=3), group_from_the_beginning(server)
    values = [f"value {number}" for number in range(300)]
    produce(server, topic, values, partitions=3)
    first = consume(server, topic, group, 100)
    rest = consume(server, topic, group, 200)
    assert sorted(first + rest) == sorted(values)
    rows = described(server, group, "--offsets")
    assert sorted(row[2] for row in rows) == ["0", "1", "2"]
    assert {row[4] for row in rows} == {"0"}, rows  # the lag


def test_released_and_rejected_records(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), group_from_the_beginning(server)
    produce(server, topic, ["a", "b", "c"])
    assert consume(server, topic, group, 3, "--release") == ["a", "b", "c"]
    assert consume(server, topic, group, 3, "--reject") == ["a", "b", "c"]
    produce(server, topic, ["d"])
    assert consume(server, topic, group, 1) == ["d"]


def test_offsets_of_a_group_are_reset_and_deleted(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), group_from_the_beginning(server)
    produce(server, topic, ["a", "b"])
    assert consume(server, topic, group, 2) == ["a", "b"]
    run_tool(
        SHARE_GROUPS,
        *("--bootstrap-server", server.bootstrap, "--reset-offsets", "--group", group, "--topic", topic),
        *("--to-earliest", "--execute"),
    )
    assert consume(server, topic, group, 2) == ["a", "b"]
    listed = run_tool(SHARE_GROUPS, "--bootstrap-server", server.bootstrap, "--list").out.splitlines()
    assert group in listed
    run_tool(SHARE_GROUPS, "--bootstrap-server", server.bootstrap, "--delete", "--group", group)
    listed = run_tool(SHARE_GROUPS, "--bootstrap-server", server.bootstrap, "--list").out.splitlines()
    assert group not in listed


def test_the_verifiable_consumer_acknowledges_all(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("share")
    produce(server, topic, [str(number) for number in range(500)])
    done = run_in_own_jvm(
        VERIFIABLE_SHARE_CONSUMER,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--group-id", group),
        *("--max-messages", "500", "--offset-reset-strategy", "earliest", "--acknowledgement-mode", "sync"),
    )
    events = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    acknowledged = sum(one["count"] for one in events if one["name"] == "offsets_acknowledged")
    assert acknowledged == 500, events


def test_the_performance_tool_reads_all(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=2), group_from_the_beginning(server)
    produce(server, topic, ["x" * 100] * 20_000, partitions=2)
    done = run_in_own_jvm(
        SHARE_CONSUMER_PERFORMANCE,
        *("--bootstrap-server", server.bootstrap, "--topic", topic, "--group", group),
        *("--num-records", "20000", "--timeout", "30000", "--hide-header"),
    )
    consumed = re.findall(r"^\d{4}-.*", done.out, re.MULTILINE)
    assert consumed and consumed[-1].split(", ")[5] == "20000", done.text


def explained(server: Server, group: str) -> dict[str, Any]:
    assert isinstance(server, BmqServer)
    command = [bmq_command(), "group", "explain", group, "--rest", f"http://127.0.0.1:{server.rest_port}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=Patience(30).limit_s)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.bmq_only
def test_it_is_explained_why_nothing_is_delivered(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=2), group_from_the_beginning(server)
    produce(server, topic, ["a", "b", "c", "d"], partitions=2)
    assert len(consume(server, topic, group, 4)) == 4
    found = explained(server, group)
    assert (found["kind"], found["state"], found["members"]) == ("share", "Empty", [])
    for one in found["partitions"]:
        assert [reason["code"] for reason in one["reasons"]] == ["no_members", "nothing_new"], one
        assert (one["high_watermark"], one["lag"], one["locked"]) == (2, 0, 0)
    produce(server, topic, ["e"])
    codes = [[reason["code"] for reason in one["reasons"]] for one in explained(server, group)["partitions"]]
    assert codes == [["no_members", "deliverable"], ["no_members", "nothing_new"]]


@pytest.mark.bmq_only
def test_an_exclusive_group_has_one_member(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), group_from_the_beginning(server)
    run_tool(
        CONFIGS,
        *("--bootstrap-server", server.bootstrap, "--alter", "--entity-type", "groups", "--entity-name", group),
        *("--add-config", "bmq.share.subscription.type=exclusive"),
    )
    produce(server, topic, ["a", "b"])
    assert consume(server, topic, group, 1) == ["a"]
    assert consume(server, topic, group, 1) == ["b"], "the first member has left"
    assert explained(server, group)["subscription"] == "exclusive"
