"""Consumer groups of librdkafka: rebalance, cooperative rebalance, static members, commits."""

from __future__ import annotations

from collections import Counter

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.e2e.conftest import TopicMaker, unique_name
from tests.support.processes import eventually
from tests.support.servers import Server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

PARTITIONS = 6


class Member:
    """A group member that remembers what it saw and how often its partitions were taken away."""

    def __init__(self, server: Server, topic: str, group: str, **config: object) -> None:
        self.values: list[bytes] = []
        self.revocations = 0
        self.revoked_partitions = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": server.bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 300,
                **config,
            }
        )
        self._consumer.subscribe([topic], on_revoke=self._revoked)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revocations += 1
        self.revoked_partitions += len(partitions)

    def poll(self) -> None:
        for message in self._consumer.consume(100, timeout=0.05):
            assert message.error() is None, message.error()
            self.values.append(message.value())

    @property
    def partitions(self) -> set[int]:
        return {assigned.partition for assigned in self._consumer.assignment()}

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            # A member that read nothing since it got its partitions has nothing to commit.
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def close(self) -> None:
        self._consumer.close()


def fill(server: Server, topic: str, prefix: str, count: int = 600) -> Counter[bytes]:
    producer = Producer({"bootstrap.servers": server.bootstrap})
    values = [f"{prefix}-{number}".encode() for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    return Counter(values)


def balanced(members: list[Member]) -> bool:
    for member in members:
        member.poll()
    owned = [member.partitions for member in members]
    return sum(map(len, owned)) == PARTITIONS and set.union(*owned) == set(range(PARTITIONS)) and all(owned)


def read(members: list[Member], count: int) -> Counter[bytes]:
    def enough() -> bool:
        for member in members:
            member.poll()
        return sum(len(member.values) for member in members) >= count

    eventually(enough, 30, f"{count} records", interval_s=0)
    return Counter(value for member in members for value in member.values)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_come_and_go(server: Server, make_topic: TopicMaker, strategy: str) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("group")
    config = {"partition.assignment.strategy": strategy}
    produced = fill(server, topic, "first")
    members = [Member(server, topic, group, **config)]
    eventually(lambda: balanced(members), 30, "one member has all partitions")
    assert read(members, 600) == produced
    members[0].commit()

    for count in (2, 3):
        members.append(Member(server, topic, group, **config))
        eventually(lambda: balanced(members), 40, f"{count} members share the partitions")
        assert sorted(len(member.partitions) for member in members) == [PARTITIONS // count] * count
    produced += fill(server, topic, "second")
    assert read(members, 1200) == produced, "a record was lost or came twice"
    for member in members:
        member.commit()

    if strategy == "cooperative-sticky":
        # Only what moves is taken: 3 of 6 partitions for the second member, 1 of 3 for the third.
        assert members[0].revoked_partitions == 4, members[0].revoked_partitions

    members.pop(0).close()
    eventually(lambda: balanced(members), 40, "the two that stay share the partitions")
    seen_before = sum((Counter(member.values) for member in members), Counter())
    third = fill(server, topic, "third")
    left = read(members, sum(seen_before.values()) + 600)
    assert left - seen_before == third
    for member in members:
        member.close()


def test_static_member_comes_back_without_a_rebalance(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("static")
    fill(server, topic, "first")

    def member(instance: str) -> Member:
        return Member(server, topic, group, **{"group.instance.id": instance, "session.timeout.ms": 20_000})

    staying, leaving = member("stays"), member("leaves")
    members = [staying, leaving]
    eventually(lambda: balanced(members), 40, "both members have partitions")
    read(members, 600)
    for each in members:
        each.commit()
    owned, revocations = (staying.partitions, leaving.partitions), staying.revocations
    leaving.close()
    back = member("leaves")
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
    assert {found.offset for found in consumer.committed(where, timeout=10)} == {-1001}
    commits = [
        TopicPartition(topic, partition, 10 * partition, metadata=f"note {partition}")
        for partition in range(PARTITIONS)
    ]
    consumer.commit(offsets=commits, asynchronous=False)
    found = {each.partition: each for each in consumer.committed(where, timeout=10)}
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
    members = [Member(server, topic, group)]
    eventually(lambda: balanced(members), 30, "the member has all partitions")
    assert read(members, sum(expected.values())) == expected
    members[0].close()


def test_dead_member_is_replaced_after_its_session(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(partitions=PARTITIONS), unique_name("dead")
    produced = fill(server, topic, "all")
    # The first member never polls after it joined: librdkafka leaves the group by itself after max.poll.interval.ms.
    silent = Member(server, topic, group, **{"session.timeout.ms": 6_000, "max.poll.interval.ms": 6_000})
    eventually(lambda: (silent.poll(), silent.partitions)[1], 30, "the first member joined")
    living = Member(server, topic, group, **{"session.timeout.ms": 6_000})

    def took_over() -> bool:
        living.poll()
        return len(living.partitions) == PARTITIONS

    eventually(took_over, 40, "the living member has all partitions")
    assert read([living], 600) == produced
    living.close()
    silent.close()
