"""kafka-python: another client in pure Python, with a consumer group and transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

from testing.processes import eventually
from testing.servers import Server
from tests.e2e.conftest import TopicMaker, unique_name

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

COUNT = 200


def consumer_of(server: Server, topic: str, group: str, isolation_level: str = "read_committed") -> KafkaConsumer:
    return KafkaConsumer(
        topic,
        bootstrap_servers=server.bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level=isolation_level,
    )


def values_of(consumer: KafkaConsumer, count: int) -> list[bytes]:
    """So many, and what comes with them."""
    values: list[bytes] = []

    def enough() -> bool:
        for messages in consumer.poll(timeout_ms=500).values():
            values.extend(message.value for message in messages)
        return len(values) >= count

    eventually(enough, 40, f"{count} records")
    return values


@pytest.fixture
def transactional(server: Server) -> Iterator[KafkaProducer]:
    with closing(KafkaProducer(bootstrap_servers=server.bootstrap, transactional_id=unique_name("tx"))) as producer:
        producer.init_transactions()
        yield producer


def test_a_group_reads_what_was_sent_and_goes_on_where_it_was(server: Server, make_topic: TopicMaker) -> None:
    topic, group = make_topic(), unique_name("group")
    with closing(KafkaProducer(bootstrap_servers=server.bootstrap, enable_idempotence=True)) as producer:
        sent = [producer.send(topic, b"%d" % number) for number in range(COUNT)]
        assert [each.get(timeout=30).offset for each in sent] == list(range(COUNT))
        with closing(consumer_of(server, topic, group)) as consumer:
            assert values_of(consumer, COUNT) == [b"%d" % number for number in range(COUNT)]
            consumer.commit()
        producer.send(topic, b"later").get(timeout=30)
        with closing(consumer_of(server, topic, group)) as consumer:
            assert values_of(consumer, 1) == [b"later"]


def test_transactions_and_their_offsets_are_whole_or_not_there(
    server: Server, make_topic: TopicMaker, transactional: KafkaProducer
) -> None:
    topic, source, group = make_topic(), make_topic(), unique_name("group")
    for number in range(6):
        transactional.begin_transaction()
        for each in range(10):
            transactional.send(topic, b"%d-%d" % (number, each), partition=0)
        offsets = {TopicPartition(source, 0): OffsetAndMetadata(number + 1, "", -1)}
        transactional.send_offsets_to_transaction(offsets, ConsumerGroupMetadata(group, -1, "", None))
        transactional.flush()
        if number % 2:
            transactional.abort_transaction()
        else:
            transactional.commit_transaction()
    committed = [b"%d-%d" % (number, each) for number in (0, 2, 4) for each in range(10)]
    with closing(consumer_of(server, topic, unique_name("group"))) as consumer:
        assert values_of(consumer, len(committed)) == committed
    with closing(consumer_of(server, topic, unique_name("group"), "read_uncommitted")) as consumer:
        assert len(values_of(consumer, 60)) == 60
    with closing(consumer_of(server, topic, group)) as consumer:
        assert consumer.committed(TopicPartition(source, 0)) == 5
