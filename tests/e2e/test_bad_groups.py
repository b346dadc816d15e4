"""What no member of a group should send: Kafka's error code, nothing lost, and other groups notice nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from kio.schema.errors import ErrorCode as E

from testing.processes import eventually
from testing.servers import Server
from testing.wire import WireClient
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.group_client import LEAVE, LEAVE_FOR_NOW, MAY_PASS, GroupClient, topic_id_of
from tests.support.transaction_client import TransactionClient

pytestmark = [pytest.mark.clients, pytest.mark.timeout(180)]

PARTITIONS = 2
MANY_TOPICS = 100_000
HUGE_BYTES = 15_000_000  # a request may have 16 MiB
LONGEST_ID_BYTES = 32_767
LONG_SESSION_MS = 60_000  # longer than a busy machine takes to send all that
TOO_LARGE = E.unknown_server_error  # as Apache Kafka has it


@pytest.fixture
def client(server: Server) -> Iterator[GroupClient]:
    with WireClient(server.port, timeout_s=60) as connection:
        eventually(
            lambda: TransactionClient(connection).find(unique_name("found"), 0) not in MAY_PASS,
            20,
            "the groups have a coordinator",
        )
        yield GroupClient(connection)


@pytest.fixture
def neighbour(server: Server, client: GroupClient, make_topic: TopicMaker) -> Iterator[str]:
    """Another group's only member, which holds all of a topic for the whole test and commits at the end; the topic."""
    topic, group_id = make_topic(partitions=PARTITIONS), unique_name("neighbour")
    topic_id = topic_id_of(server.bootstrap, topic)
    with WireClient(server.port) as connection:
        other = GroupClient(connection)
        member_id, epoch = settled(other, group_id, topic, topic_id)
        yield topic
        beat = other.heartbeat(group_id, member_id, epoch)
        assert (beat.error_code, beat.member_epoch, beat.assignment) == (E.none, epoch, None)
        done = other.commit(group_id, {topic: [1]}, generation=epoch, member_id=member_id)
        assert done == {topic: [E.none]}
        assert other.heartbeat(group_id, member_id, LEAVE).error_code is E.none
    assert committed(server, group_id, topic, 1) == 1


def settled(
    client: GroupClient, group_id: str, topic: str, topic_id: UUID, instance_id: str | None = None
) -> tuple[str, int]:
    return client.settled(group_id, topic, topic_id, PARTITIONS, instance_id)


def committed(server: Server, group_id: str, topic: str, partition: int) -> int:
    reader = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group_id})
    (found,) = reader.committed([TopicPartition(topic, partition)], timeout=20)
    reader.close()
    return int(found.offset)


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": ""},
        {"group_id": ""},
        {"instance_id": ""},
        {"rack_id": ""},
        {"rebalance_timeout": timedelta(milliseconds=-1)},
        {"topics": None},
        {"owned": {UUID(int=7): [0]}},
        {"member_id": "m", "epoch": -3},
        {"member_id": "m", "epoch": -100},
        {"member_id": "m", "epoch": LEAVE_FOR_NOW},
    ],
    ids=str,
)
def test_a_heartbeat_that_says_too_little_or_too_much(
    client: GroupClient, neighbour: str, fields: dict[str, Any]
) -> None:
    asked = {"group_id": unique_name("group"), "topics": [neighbour], **fields}
    assert client.heartbeat(**asked).error_code is E.invalid_request
    if asked["group_id"]:
        assert client.heartbeat(asked["group_id"], "m", 1).error_code is E.group_id_not_found, "nothing was made"


def test_unknown_assignors_and_patterns_that_are_none(client: GroupClient, neighbour: str) -> None:
    group_id = unique_name("group")
    answer = client.heartbeat(group_id, topics=[neighbour], server_assignor="nobody")
    assert answer.error_code is E.unsupported_assignor
    assert "uniform" in str(answer.error_message)
    answer = client.heartbeat(group_id, topics=[neighbour], server_assignor="\u20ac" * 10_900)
    assert answer.error_code is E.unsupported_assignor
    assert len(str(answer.error_message).encode()) <= LONGEST_ID_BYTES, "other clients could not read it"
    for pattern in ("(", "*", "[z-a]", "a{1000}{1000}{1000}"):
        answer = client.heartbeat(group_id, subscribed_topic_regex=pattern)
        assert answer.error_code is E.invalid_regular_expression, pattern
    # What takes a backtracking engine longer than the world lasts is matched in linear time.
    hostile = client.heartbeat(unique_name("group"), subscribed_topic_regex="(x+x+)+y|(topic|topic)*z")
    assert hostile.error_code is E.none


def test_unknown_members_and_epochs_that_are_not_its_own(
    client: GroupClient, server: Server, neighbour: str, make_topic: TopicMaker
) -> None:
    group_id, topic = unique_name("group"), make_topic(partitions=PARTITIONS)
    assert client.heartbeat(group_id, "m", 1).error_code is E.group_id_not_found
    assert client.heartbeat(group_id, "m", LEAVE).error_code is E.group_id_not_found
    member_id, epoch = settled(client, group_id, topic, topic_id_of(server.bootstrap, topic))
    for other in (epoch + 1, epoch + 1_000_000):
        assert client.heartbeat(group_id, member_id, other).error_code is E.fenced_member_epoch
    assert client.heartbeat(group_id, "stranger", epoch).error_code is E.unknown_member_id
    assert client.heartbeat(group_id, "stranger", LEAVE).error_code is E.unknown_member_id
    for asked, code in (
        ({"generation": epoch, "member_id": "stranger"}, E.unknown_member_id),
        ({"generation": epoch + 1, "member_id": member_id}, E.stale_member_epoch),
        ({"generation": -1, "member_id": member_id}, E.stale_member_epoch),
        ({}, E.unknown_member_id),
        ({"generation": epoch, "member_id": member_id}, E.none),
    ):
        assert client.commit(group_id, {topic: [0]}, **asked) == {topic: [code]}, asked  # type: ignore[arg-type]
    classic = client.join(group_id, client.join(group_id).member_id, protocol_type="connect")
    assert classic.error_code is E.inconsistent_group_protocol
    assert client.beat(group_id, member_id, epoch) is E.unknown_member_id, "a heartbeat of the other protocol"
    assert client.heartbeat(group_id, member_id, LEAVE).error_code is E.none


def test_two_members_of_the_consumer_protocol_with_one_instance_id(
    client: GroupClient, server: Server, neighbour: str, make_topic: TopicMaker
) -> None:
    group_id, topic = unique_name("group"), make_topic(partitions=PARTITIONS)
    topic_id = topic_id_of(server.bootstrap, topic)
    member_id, epoch = settled(client, group_id, topic, topic_id, "one")
    second = client.heartbeat(group_id, topics=[topic], instance_id="one")
    assert second.error_code is E.unreleased_instance_id
    assert client.heartbeat(group_id, "stranger", epoch, instance_id="one").error_code is E.fenced_instance_id
    assert client.heartbeat(group_id, "stranger", LEAVE_FOR_NOW, instance_id="one").error_code is E.fenced_instance_id
    assert client.heartbeat(group_id, member_id, epoch, instance_id="nobody").error_code is E.unknown_member_id
    assert client.heartbeat(group_id, member_id, epoch, instance_id="one").error_code is E.none
    assert client.heartbeat(group_id, member_id, LEAVE_FOR_NOW, instance_id="one").error_code is E.none
    returned, _ = settled(client, group_id, topic, topic_id, "one")
    assert returned != member_id
    assert client.heartbeat(group_id, returned, LEAVE, instance_id="one").error_code is E.none


def test_two_members_of_the_classic_protocol_with_one_instance_id(client: GroupClient, neighbour: str) -> None:
    group_id = unique_name("group")
    first, generation = client.joined(group_id, instance_id="one")
    second, generation = client.joined(group_id, instance_id="one")
    assert client.beat(group_id, first, generation, "one") is E.fenced_instance_id
    assert client.beat(group_id, second, generation, "one") is E.none
    assert client.leave(group_id, first, "one") is E.fenced_instance_id
    assert client.leave(group_id, second, "one") is E.none


def test_stale_generations_and_unknown_members(client: GroupClient, neighbour: str) -> None:
    group_id = unique_name("group")
    assert client.beat(group_id, "stranger", 1) is E.unknown_member_id
    assert client.leave(group_id, "stranger") is E.unknown_member_id
    assert client.sync(group_id, "stranger", 1) is E.unknown_member_id
    member_id, generation = client.joined(group_id)
    for other in (generation + 1, generation - 1):
        assert client.beat(group_id, member_id, other) is E.illegal_generation
        assert client.sync(group_id, member_id, other) is E.illegal_generation
        told = client.commit(group_id, {neighbour: [0]}, generation=other, member_id=member_id)
        assert told == {neighbour: [E.illegal_generation]}
    assert client.beat(group_id, "stranger", generation) is E.unknown_member_id
    told = client.commit(group_id, {neighbour: [0]}, generation=generation, member_id="stranger")
    assert told == {neighbour: [E.unknown_member_id]}
    assert client.join(group_id, protocols={"other": b""}).error_code is E.inconsistent_group_protocol
    assert client.join(group_id, protocol_type="connect").error_code is E.inconsistent_group_protocol
    assert client.join(group_id, protocols={}).error_code is E.inconsistent_group_protocol
    for timeout_ms in (0, 5, 100_000_000):
        assert client.join(group_id, session_timeout_ms=timeout_ms).error_code is E.invalid_session_timeout
    assert client.join("").error_code is E.invalid_group_id
    assert client.beat(group_id, member_id, generation) is E.none
    assert client.leave(group_id, member_id) is E.none


def test_offsets_that_cannot_be_committed(client: GroupClient, server: Server, neighbour: str) -> None:
    group_id = unique_name("group")
    told = client.commit(group_id, {neighbour: [0, 99, -1], "nobody": [0]})
    # Apache Kafka answers in any order.
    assert sorted(told[neighbour]) == [E.none, E.unknown_topic_or_partition, E.unknown_topic_or_partition]
    assert told["nobody"] == [E.unknown_topic_or_partition]
    assert committed(server, group_id, neighbour, 0) == 1, "what is good of a request is done"
    assert client.commit(group_id, {neighbour: [0]}, metadata="x" * 4_097) == {neighbour: [E.offset_metadata_too_large]}
    assert client.commit_by_id(group_id, uuid4()) is E.unknown_topic_id
    assert client.commit_by_id(group_id, topic_id_of(server.bootstrap, neighbour)) is E.none
    told = client.commit(group_id, {neighbour: [0]}, generation=3, member_id="m")
    assert told == {neighbour: [E.unknown_member_id]}
    assert client.commit("", {neighbour: [0]}) == {neighbour: [E.none]}, "an id like another to those without members"


@pytest.mark.parametrize("length", [LONGEST_ID_BYTES, LONGEST_ID_BYTES + 1])
@pytest.mark.parametrize("field", ["group_id", "member_id", "instance_id", "rack_id"])
def test_ids_as_long_as_a_string_may_be_and_longer(server: Server, neighbour: str, field: str, length: int) -> None:
    """One byte more is no string of the protocol: only its own connection ends."""
    asked: dict[str, Any] = {"group_id": unique_name("group"), field: unique_name("long").ljust(length, "x")}
    with WireClient(server.port) as connection:
        mine = GroupClient(connection)
        if length > LONGEST_ID_BYTES:
            with pytest.raises(ConnectionError):
                mine.heartbeat(**asked, topics=[neighbour])
            return
        joined = mine.heartbeat(**asked, topics=[neighbour])
        assert joined.error_code is E.none
        leaving = {"instance_id": asked.get("instance_id")}
        assert mine.heartbeat(asked["group_id"], joined.member_id, LEAVE, **leaving).error_code is E.none


@pytest.mark.bmq_only  # Apache Kafka makes a member id of it that is too long for its own records
def test_classic_groups_with_ids_as_long_as_a_string_may_be(client: GroupClient, neighbour: str) -> None:
    longest = unique_name("long").ljust(LONGEST_ID_BYTES, "x")
    member_id, generation = client.joined(longest, instance_id=longest)
    told = client.commit(
        longest, {neighbour: [0]}, generation=generation, member_id=member_id, instance_id=longest, metadata="x" * 4_096
    )
    assert told == {neighbour: [E.none]}
    assert client.beat(longest, longest, generation) is E.unknown_member_id
    assert client.beat(longest, member_id, generation, longest) is E.none
    assert client.leave(longest, member_id, longest) is E.none


def test_a_member_with_a_hundred_thousand_topics(client: GroupClient, neighbour: str) -> None:
    group_id = unique_name("group")
    names = [f"nobody-{number:06}" for number in range(MANY_TOPICS)]
    answer = client.heartbeat(group_id, topics=[*names, neighbour])
    assert answer.error_code is TOO_LARGE
    assert client.heartbeat(group_id, "m", 1).error_code is E.group_id_not_found


def test_metadata_of_many_megabytes(client: GroupClient, neighbour: str) -> None:
    """Neither as a member's subscription nor as its assignment: what does not fit into one record is refused."""
    group_id = unique_name("group")
    answer = client.join(group_id, session_timeout_ms=LONG_SESSION_MS)
    assert answer.error_code is E.member_id_required
    huge = bytes(HUGE_BYTES)
    joined = client.join(group_id, answer.member_id, protocols={"range": huge}, session_timeout_ms=LONG_SESSION_MS)
    code = joined.error_code
    if code is E.none:
        code = client.sync(group_id, joined.member_id, joined.generation_id)
    assert code is TOO_LARGE, code
    other = unique_name("group")
    first = client.join(other, session_timeout_ms=LONG_SESSION_MS)
    joined = client.join(other, first.member_id, session_timeout_ms=LONG_SESSION_MS)
    assert joined.error_code is E.none
    assert client.sync(other, joined.member_id, joined.generation_id, huge) is TOO_LARGE
    assert client.beat(other, joined.member_id, joined.generation_id) is E.rebalance_in_progress
