"""Consumer groups of librdkafka: rebalance, cooperative rebalance, static members, commits."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from testing.processes import eventually
from testing.servers import Bootstrap, Server
from tests.e2e.conftest import TopicMaker, unique_name
from tests.support import group_members
from tests.support.group_members import CLASSIC, Member, read, shared_by

pytestmark = [pytest.mark.clients, pytest.mark.timeout(300)]

PARTITIONS = 6
RECORDS = 600


def join(server: Bootstrap, topic: str, group: str, **config: object) -> Member:
    return Member(server.bootstrap, topic, group, {**CLASSIC, **config})


def fill(server: Bootstrap, topic: str, prefix: str, count: int = RECORDS) -> Counter[bytes]:
    return group_members.fill(server.bootstrap, topic, PARTITIONS, prefix, count)


def balanced(members: list[Member]) -> bool:
    return shared_by(members, PARTITIONS)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_come_and_go(server: Server, make_topic: TopicMaker, strategy: str) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("group")
    config = {"partition.assignment.strategy": strategy}
    produced = fill(server, topic, "first")
    members = [join(server, topic, group, **config)]
    eventually(lambda: balanced(members), 30, "one member has all partitions")
    assert read(members, RECORDS) == produced
    members[0].commit()

    for count in (2, 3):
        members.append(join(server, topic, group, **config))
        eventually(lambda: balanced(members), 40, f"{count} members share the partitions")
        assert sorted(len(member.partitions) for member in members) == [PARTITIONS // count] * count
    produced += fill(server, topic, "second")
    assert read(members, 2 * RECORDS) == produced, "a record was lost or came twice"
    for member in members:
        member.commit()

    if strategy == "cooperative-sticky":
        # Only what moves is taken: 3 of 6 partitions for the second member, 1 of 3 for the third.
        assert members[0].revoked_partitions == 4, members[0].revoked_partitions

    members.pop(0).close()
    eventually(lambda: balanced(members), 40, "the two that stay share the partitions")
    seen_before = sum((Counter(member.values) for member in members), Counter())
    third = fill(server, topic, "third")
    left = read(members, sum(seen_before.values()) + RECORDS)
    assert left - seen_before == third
    for member in members:
        member.close()


def test_static_member_comes_back_without_a_rebalance(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("static")
    fill(server, topic, "first")

    def static(instance: str) -> Member:
        return join(server, topic, group, **{"group.instance.id": instance, "session.timeout.ms": 20_000})

    staying, leaving = static("stays"), static("leaves")
    members = [staying, leaving]
    eventually(lambda: balanced(members), 40, "both members have partitions")
    read(members, RECORDS)
    for each in members:
        each.commit()
    owned, revocations = (staying.partitions, leaving.partitions), staying.revocations
    leaving.close()
    back = static("leaves")
    eventually(lambda: balanced([staying, back]), 40, "the member has its partitions again")
    assert (staying.partitions, back.partitions) == owned
    assert staying.revocations == revocations, "the member that stayed was bothered"
    for each in (staying, back):
        each.close()


def test_committed_offsets_are_where_the_next_member_starts(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("commits")
    produced = fill(server, topic, "all")
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": group, "enable.auto.commit": False})
    where = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    assert {found.offset for found in consumer.committed(where, timeout=60)} == {-1001}
    commits = [
        TopicPartition(topic, partition, 10 * partition, metadata=f"note {partition}")
        for partition in range(PARTITIONS)
    ]
    consumer.commit(offsets=commits, asynchronous=False)
    found = {each.partition: each for each in consumer.committed(where, timeout=60)}
    assert {partition: each.offset for partition, each in found.items()} == {
        partition: 10 * partition for partition in range(PARTITIONS)
    }
    assert found[1].metadata == "note 1"
    consumer.close()
    expected = Counter(
        value
        for value in produced
        for number in [int(value.decode().removeprefix("all-"))]
        if number // PARTITIONS >= 10 * (number % PARTITIONS)
    )
    members = [join(server, topic, group)]
    eventually(lambda: balanced(members), 30, "the member has all partitions")
    assert read(members, sum(expected.values())) == expected
    members[0].close()


def test_dead_member_is_replaced_after_its_session(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("dead")
    produced = fill(server, topic, "all")
    # The first member never polls after it joined: librdkafka leaves the group by itself after max.poll.interval.ms.
    silent = join(server, topic, group, **{"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000})
    eventually(lambda: (silent.poll(), silent.partitions)[1], 30, "the first member joined")  # type: ignore[func-returns-value]
    living = join(server, topic, group, **{"session.timeout.ms": 30_000})

    def took_over() -> bool:
        living.poll()
        return len(living.partitions) == PARTITIONS

    eventually(took_over, 40, "the living member has all partitions")
    assert read([living], RECORDS) == produced
    with pytest.raises(KafkaException, match="_MAX_POLL_EXCEEDED"):
        silent.poll()
    # librdkafka's close() waits for ever, now and then, when the loss of its partitions is still to be called back.
    eventually(
        lambda: (silent.poll(), silent.revocations)[1],  # type: ignore[func-returns-value]
        30,
        "the silent member heard that it lost its partitions",
    )
    silent.close()
    living.close()
