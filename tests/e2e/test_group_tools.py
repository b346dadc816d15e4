"""kafka-groups, kafka-consumer-groups and kafka-streams-groups with the options that change or filter something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from testing.java import CONSUMER_GROUPS, TOPICS, ToolResult
from testing.processes import eventually
from testing.servers import Bootstrap, Server
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.group_members import CLASSIC, CONSUMER, Member, closed_at_the_end, shared_by
from tests.support.tool_runner import run_tool
from tests.support.word_count import WordCount, compile_word_count

pytestmark = [pytest.mark.clients, pytest.mark.timeout(240)]

GROUPS = "org.apache.kafka.tools.GroupsCommand"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
RECORDS = 20
LINES = 50


def tool(main_class: str, server: Server, *arguments: str, check: bool = True) -> ToolResult:
    return run_tool(main_class, "--bootstrap-server", server.bootstrap, *arguments, check=check)


def rows(text: str) -> dict[str, list[str]]:
    """What a tool prints in columns, by the first."""
    return {words[0]: words[1:] for words in map(str.split, text.splitlines()) if words}


def offsets_of(server: Server, group: str, topic: str, partitions: int) -> list[int]:
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group})
    found = reader.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=20)
    reader.close()
    return [each.offset for each in found]


def commit(server: Server, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False})
    positions = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()


def fill(server: Bootstrap, topic: str, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    for number in range(RECORDS * partitions):
        producer.produce(topic, b"%d" % number, partition=number % partitions)
    assert producer.flush(20) == 0


def test_groups_are_listed_by_type_protocol_and_state(server: Server, make_topic: TopicMaker) -> None:
    topic = make_topic(partitions=2)
    classic, consumer, simple = (unique_name(kind) for kind in ("classic", "consumer", "simple"))
    commit(server, simple, topic, {0: 0})
    members = [Member(server.bootstrap, topic, classic, CLASSIC), Member(server.bootstrap, topic, consumer, CONSUMER)]
    with closed_at_the_end(members):
        eventually(lambda: all(shared_by([member], 2) for member in members), 40, "both have their partitions")

        def listed(*filters: str) -> dict[str, list[str]]:
            """Of these groups alone: the server is shared."""
            found = rows(tool(GROUPS, server, "--list", *filters).out)
            return {group: found[group] for group in (classic, consumer, simple) if group in found}

        assert listed() == {classic: ["Classic", "consumer"], consumer: ["Consumer", "consumer"], simple: ["Classic"]}
        assert listed("--group-type", "consumer").keys() == {consumer}
        assert listed("--protocol", "consumer").keys() == {classic, consumer}
        assert listed("--consumer").keys() == {classic, consumer, simple}
        assert not listed("--streams")

        stable = rows(tool(CONSUMER_GROUPS, server, "--list", "--state", "Stable", "--type", "consumer").out)
        assert stable[consumer] == ["Consumer", "Stable"] and not {classic, simple} & stable.keys()
        states = rows(tool(CONSUMER_GROUPS, server, "--list", "--state").out)
        assert (states[classic], states[simple]) == (["Stable"], ["Empty"])


def test_offsets_are_reset_in_every_way(server: Server, make_topic: TopicMaker, tmp_path: Path) -> None:
    topic, group = make_topic(partitions=2), unique_name("reset")
    fill(server, topic, 2)
    commit(server, group, topic, {0: 4, 1: 6})

    def reset(*how: str) -> tuple[list[int], str]:
        out = tool(CONSUMER_GROUPS, server, "--reset-offsets", "--group", group, *how, "--execute").out
        return offsets_of(server, group, topic, 2), out

    assert reset("--all-topics", "--to-offset", "9")[0] == [9, 9]
    assert reset("--topic", f"{topic}:1", "--shift-by", "-3")[0] == [9, 6]
    assert reset("--all-topics", "--to-current")[0] == [9, 6]
    assert reset("--all-topics", "--to-datetime", "2020-01-01T00:00:00.000")[0] == [0, 0]
    assert reset("--all-topics", "--by-duration", "PT0S")[0] == [RECORDS, RECORDS]
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,3\n{topic},1,5\n")
    assert reset("--from-file", str(plan))[0] == [3, 5]
    offsets, exported = reset("--all-topics", "--to-latest", "--export")
    assert offsets == [RECORDS, RECORDS]
    assert sorted(exported.split()) == [f"{topic},0,{RECORDS}", f"{topic},1,{RECORDS}"]


@pytest.fixture
def application(server: Server, make_topic: TopicMaker, tmp_path: Path) -> Iterator[WordCount]:
    classes = compile_word_count(tmp_path / "classes")
    source, target = make_topic(partitions=2), make_topic(partitions=2)
    application = WordCount(server.bootstrap, classes, source, target, 2, "streams", tmp_path / "state")
    application.start()
    application.write(LINES)
    eventually(lambda: application.counted() >= sum(application.expected.values()), 90, "all is counted")
    yield application
    if application.process.is_running:
        application.process.kill()


@pytest.mark.campaign("kafka")
def test_a_streams_group_is_described_reset_and_deleted(server: Server, application: WordCount) -> None:
    group, source = application.application_id, application.source
    internal = {f"{group}-counts-repartition", f"{group}-counts-changelog"}

    def streams(*arguments: str, check: bool = True) -> str:
        return tool(STREAMS_GROUPS, server, *arguments, check=check).text

    assert rows(tool(GROUPS, server, "--list", "--streams").out)[group] == ["Streams", "streams"]
    assert rows(streams("--list", "--state", "Stable"))[group] == ["Stable"]
    members = streams("--describe", "--group", group, "--members", "--verbose")
    assert re.search(rf"^{group}\s+\d+\s+0\s+\S+\s+streams\s.*ACTIVE: 0:\[0,1\]; 1:\[0,1\];", members, re.MULTILINE)
    lags = streams("--describe", "--group", group)
    assert re.search(rf"^{group}\s+{source}\s+0\s+0$", lags, re.MULTILINE), lags
    assert re.search(rf"^{group}\s+{group}-counts-repartition\s+1\s+0$", lags, re.MULTILINE), lags
    assert "GroupNotEmptyException" in streams("--delete", "--group", group, check=False)
    assert "GroupSubscribedToTopicException" in streams(
        "--delete-offsets", "--group", group, "--input-topic", source, check=False
    )

    application.process.stop(30)
    eventually(lambda: "Empty" in streams("--describe", "--group", group, "--state"), 60, "its member has left")
    assert offsets_of(server, group, source, 2) == [LINES // 2] * 2
    streams("--reset-offsets", "--group", group, "--input-topic", f"{source}:0", "--to-offset", "3", "--execute")
    assert offsets_of(server, group, source, 2)[0] == 3
    streams("--delete-offsets", "--group", group, "--input-topic", f"{source}:1")
    assert offsets_of(server, group, source, 2)[1] < 0
    streams("--delete", "--group", group, "--delete-all-internal-topics")
    assert group not in rows(streams("--list"))
    assert not internal & set(tool(TOPICS, server, "--list").out.split())
