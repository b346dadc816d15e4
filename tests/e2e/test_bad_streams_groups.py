"""What no member of a streams group should send: Kafka's error code, nothing made of it, and other groups notice nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.errors import ErrorCode as E

from testing.processes import eventually
from testing.servers import Server
from testing.wire import WireClient
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.streams_client import StreamsClient, copartitioned, subtopology, topic

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LEAVE = -1
INCORRECTLY_PARTITIONED = 2  # a status
PARTITIONS = 2
TOO_LARGE = E.unknown_server_error  # as Apache Kafka has it
LONGEST_ID_BYTES = 32_767


@pytest.fixture
def client(server: Server) -> Iterator[StreamsClient]:
    with WireClient(server.port, timeout_s=60) as connection:
        yield StreamsClient(connection)


@pytest.fixture
def source(make_topic: TopicMaker) -> str:
    return make_topic(partitions=PARTITIONS)


def settled(client: StreamsClient, group_id: str, source: str, member_id: str = "member") -> int:
    """The epoch of a group's only member that has all tasks of its one subtopology."""
    answer = client.join(group_id, subtopology("0", [source]), member_id=member_id)
    assert answer.error_code is E.none, answer

    def has_all() -> bool:
        nonlocal answer
        answer = client.beat(group_id, member_id, answer.member_epoch)
        assert answer.error_code is E.none, answer
        return bool(answer.active_tasks)

    eventually(has_all, 20, "the member has all tasks")
    held = {"0": range(PARTITIONS)}
    assert {part.subtopology_id: sorted(part.partitions) for part in answer.active_tasks or ()} == {"0": [0, 1]}
    assert (
        client.beat(group_id, member_id, answer.member_epoch, active=held, standby={}, warmup={}).error_code is E.none
    )
    return answer.member_epoch


@pytest.fixture
def neighbour(server: Server, source: str) -> Iterator[str]:
    """Another group's only member, which has its tasks for the whole test, over one connection; the topic it reads."""
    group_id = unique_name("neighbour")
    with WireClient(server.port, timeout_s=60) as connection:
        other = StreamsClient(connection)
        epoch = settled(other, group_id, source)
        yield source
        beat = other.beat(group_id, "member", epoch)
        assert (beat.error_code, beat.member_epoch, beat.active_tasks) == (E.none, epoch, None)
        assert other.beat(group_id, "member", LEAVE).error_code is E.none


def test_a_join_that_says_too_little_or_too_much(client: StreamsClient, neighbour: str) -> None:
    wrong: tuple[dict[str, Any], ...] = (
        {"member_id": ""},
        {"group_id": ""},
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout": timedelta(milliseconds=-1)},
        {"topology": None},
        {"active": None},
        {"active": {"0": [0]}},
    )
    for fields in wrong:
        asked = {"group_id": unique_name("group"), **fields}
        group_id = asked.pop("group_id")
        assert client.join(group_id, subtopology("0", [neighbour]), **asked).error_code is E.invalid_request, fields
        if group_id:
            assert client.beat(group_id, "member", 1).error_code is E.group_id_not_found, "nothing was made"


def test_topologies_that_are_none(client: StreamsClient, server: Server, neighbour: str) -> None:
    for bad in (
        [subtopology("0")],
        [subtopology("0", ["a/b"])],
        [subtopology("0", ["x" * 250])],
        [subtopology("0", ["__consumer_offsets"])],
        [subtopology("0", [neighbour], state_changelog_topics=(topic("log", 3),))],
        [subtopology("0", [neighbour], state_changelog_topics=(topic("__transaction_state"),))],
        [
            subtopology("0", repartition_sink_topics=("a",), repartition_source_topics=(topic("b"),)),
            subtopology("1", repartition_sink_topics=("b",), repartition_source_topics=(topic("a"),)),
        ],
    ):
        group_id = unique_name("group")
        assert client.join(group_id, *bad).error_code is E.streams_invalid_topology, bad
        assert client.beat(group_id, "member", 1).error_code is E.group_id_not_found
    hostile = subtopology("0", [neighbour], source_topic_regex=("(x+x+)+y",))
    assert client.join(unique_name("group"), hostile).error_code is E.invalid_request


@pytest.mark.bmq_only  # Apache Kafka 4.3 says UNKNOWN_SERVER_ERROR, and logs a traceback
def test_numbers_that_mean_nothing(client: StreamsClient, neighbour: str) -> None:
    bad = subtopology("0", [neighbour], repartition_source_topics=(topic("made", -5),))
    assert client.join(unique_name("group"), bad).error_code is E.streams_invalid_topology
    for places in ((1,), (-1,), (32_767,)):
        bad = subtopology("0", [neighbour], copartition_groups=(copartitioned(places),))
        assert client.join(unique_name("group"), bad).error_code is E.streams_invalid_topology


def test_topics_that_cannot_be_made(client: StreamsClient, server: Server, neighbour: str) -> None:
    """The member hears why; more partitions than a cluster may have are not begun."""
    group_id, made = unique_name("group"), unique_name("made")
    writer = subtopology("0", [neighbour], repartition_sink_topics=(made,))
    reader = subtopology("1", repartition_source_topics=(topic(made, 2_147_483_647),))
    joined = client.join(group_id, writer, reader, member_id="member")
    assert joined.error_code is E.none

    def told_why() -> bool:
        answer = client.beat(group_id, "member", joined.member_epoch)
        assert answer.error_code is E.none and not answer.active_tasks
        return any("failed" in status.status_detail for status in answer.status or ())

    eventually(told_why, 30, "the member is told that it failed")
    assert made not in AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=20).topics
    assert client.beat(group_id, "member", LEAVE).error_code is E.none


def test_unknown_members_and_epochs_that_are_not_its_own(client: StreamsClient, neighbour: str) -> None:
    group_id = unique_name("group")
    assert client.beat(group_id, "member", 1).error_code is E.group_id_not_found
    assert client.beat(group_id, "member", LEAVE).error_code is E.group_id_not_found
    epoch = settled(client, group_id, neighbour)
    for other in (epoch + 1, epoch + 1_000_000):
        assert client.beat(group_id, "member", other).error_code is E.fenced_member_epoch
    for other in (-3, -100):
        assert client.beat(group_id, "member", other).error_code is E.invalid_request
    for other in (epoch, LEAVE):
        assert client.beat(group_id, "stranger", other).error_code is E.unknown_member_id
    for tasks in ({"9": [0]}, {"0": [99]}, {"0": [-1]}):
        assert (
            client.beat(group_id, "member", epoch, active=tasks, standby={}, warmup={}).error_code is E.invalid_request
        )
    assert client.beat(group_id, "member", epoch, active={}).error_code is E.invalid_request
    changed = client.join(group_id, subtopology("0", [neighbour], state_changelog_topics=(topic("log"),)))
    assert changed.error_code is E.invalid_request, "the topology cannot be changed"
    assert client.beat(group_id, "member", epoch).error_code is E.none
    assert client.beat(group_id, "member", LEAVE).error_code is E.none


@pytest.mark.bmq_only  # Apache Kafka 4.3 says UNKNOWN_SERVER_ERROR to the longest
def test_ids_as_long_as_a_string_may_be_and_longer(client: StreamsClient, server: Server, neighbour: str) -> None:
    longest = unique_name("long").ljust(LONGEST_ID_BYTES, "x")
    joined = client.join(longest, subtopology("0", [neighbour]), member_id=longest, process_id=longest)
    assert joined.error_code is E.none
    assert client.beat(longest, longest, LEAVE).error_code is E.none
    with WireClient(server.port) as connection, pytest.raises(ConnectionError):
        StreamsClient(connection).join(longest + "x", subtopology("0", [neighbour]))


def test_topologies_larger_than_a_record(client: StreamsClient, neighbour: str) -> None:
    names = [f"nobody-{number:06}" for number in range(100_000)]
    group_id = unique_name("group")
    assert client.join(group_id, subtopology("0", names)).error_code is TOO_LARGE
    assert client.beat(group_id, "member", 1).error_code is E.group_id_not_found


@pytest.mark.bmq_only  # Apache Kafka goes through all of it for each of its links
def test_a_chain_of_thousands_of_repartition_topics_stops_nobody(client: StreamsClient, neighbour: str) -> None:
    """The neighbour's connection is still open behind it: a node that stood still drops its clients."""
    names = [unique_name("chain") + f"-{number}" for number in range(3_000)]
    links = [
        subtopology(
            f"{number}", repartition_source_topics=(topic(names[number]),), repartition_sink_topics=(names[number + 1],)
        )
        for number in range(len(names) - 1)
    ]
    # It cannot work in the end, so that none of these topics is made.
    last = subtopology(
        "last",
        [neighbour],
        repartition_source_topics=(topic(names[-1]), topic("fixed", PARTITIONS + 1)),
        copartition_groups=(copartitioned([0], [1]),),
    )
    first = subtopology("first", [neighbour], repartition_sink_topics=(names[0],))
    group_id = unique_name("group")
    answer = client.join(group_id, first, *links, last, member_id="member")
    assert answer.error_code is E.none
    assert INCORRECTLY_PARTITIONED in {status.status_code for status in answer.status or ()}
    assert client.beat(group_id, "member", LEAVE).error_code is E.none
