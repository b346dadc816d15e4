"""A topic of numbers in transactions, for tests that read it with Spark. Imports no Spark."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

PARTITIONS = 3
COUNT = 3_000
OF_TRANSACTION = 150
FIRST_MS = 1_700_000_000_000


class Stored(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    value: str
    time_ms: int
    headers: list[list[str]] | None


def time_ms(number: int) -> int:
    return FIRST_MS + 1_000 * number


def produce_numbers(bootstrap: str, topic: str) -> None:
    """COUNT records in transactions, of which every fourth is aborted; every fifth record has a header."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-numbers"})
    producer.init_transactions(30)
    for turn, first in enumerate(range(0, COUNT, OF_TRANSACTION)):
        producer.begin_transaction()
        for number in range(first, first + OF_TRANSACTION):
            producer.produce(
                topic,
                b"%d" % number,
                b"key-%d" % number,
                partition=number % PARTITIONS,
                timestamp=time_ms(number),
                headers=[("trace", b"%d" % number)] if number % 5 == 0 else [],
            )
        assert producer.flush(30) == 0
        producer.abort_transaction(30) if turn % 4 == 3 else producer.commit_transaction(30)


def stored(bootstrap: str, topic: str, *, is_committed: bool) -> list[Stored]:
    """All records, in the order of partitions and offsets, as librdkafka reads them."""
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": "looks",
        "isolation.level": "read_committed" if is_committed else "read_uncommitted",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
    }
    found = []
    with closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        ends = 0
        while ends < PARTITIONS:
            message = consumer.poll(30)
            assert message is not None, "the consumer waits"
            if message.error() is not None:
                ends += 1
                continue
            headers = [[name, value.decode()] for name, value in message.headers() or ()] or None
            place = (message.partition(), message.offset())
            found.append(Stored(*place, message.value().decode(), message.timestamp()[1], headers))
    return sorted(found)
