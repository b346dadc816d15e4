"""Members of a consumer group that are librdkafka's, and what they read together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from testing.processes import eventually

CLASSIC: Final[dict[str, object]] = {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 300}
CONSUMER: Final[dict[str, object]] = {"group.protocol": "consumer", "topic.metadata.refresh.interval.ms": 1_000}
"""What the protocols of a group are chosen by."""
READ_WAIT_S: Final = 90.0


class Member:
    """Remembers what it saw and how often its partitions were taken away. `config`: of either protocol, and more."""

    def __init__(self, bootstrap: str, subscription: str, group: str, config: dict[str, object]) -> None:
        self.values: list[bytes] = []
        self.revocations = 0
        self.revoked_partitions = 0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **config,
            }
        )
        self._consumer.subscribe([subscription], on_revoke=self._revoked)

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revocations += 1
        self.revoked_partitions += len(partitions)

    def poll(self) -> None:
        """Raises KafkaException with what librdkafka reports."""
        for message in self._consumer.consume(100, timeout=0.05):
            error, value = message.error(), message.value()
            if error is not None:
                raise KafkaException(error)
            assert isinstance(value, bytes)
            self.values.append(value)

    @property
    def partitions(self) -> set[tuple[str, int]]:
        return {(assigned.topic, assigned.partition) for assigned in self._consumer.assignment()}

    def commit(self) -> None:
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            # A member that read nothing since it got its partitions has nothing to commit.
            if error.args[0].code() != KafkaError._NO_OFFSET:
                raise

    def close(self) -> None:
        self._consumer.close()


def fill(bootstrap: str, topic: str, partitions: int, prefix: str, count: int) -> Counter[bytes]:
    """The values produced: as many into each partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    values = [f"{prefix}-{number}".encode() for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(20) == 0
    return Counter(values)


def shared_by(members: list[Member], count: int) -> bool:
    """Whether so many partitions are assigned, each once, and every member has some. Polls each."""
    for member in members:
        member.poll()
    owned = [member.partitions for member in members]
    return sum(map(len, owned)) == count and len(set.union(*owned)) == count and all(owned)


def read(members: list[Member], count: int) -> Counter[bytes]:
    """All that the members have seen, once it is so much. Raises AssertionError."""

    def enough() -> bool:
        for member in members:
            member.poll()
        return sum(len(member.values) for member in members) >= count

    eventually(enough, READ_WAIT_S, f"{count} records", interval_s=0)
    return Counter(value for member in members for value in member.values)


@contextmanager
def closed_at_the_end(members: list[Member]) -> Iterator[None]:
    """Those that the list holds then."""
    try:
        yield
    finally:
        for member in members:
            member.close()
