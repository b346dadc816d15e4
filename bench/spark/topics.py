"""The topics to read: the same records on both sides, nearly all in closed segments."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from bench.cluster.admin import create_topic, create_topics_request, wait_for_leaders
from bench.cluster.filling import FillFailed
from bench.cluster.sides import Side
from bench.loads.client import Client, Guarantees
from bench.micro_records import value_of
from bench.workloads import LoadFailed

REPLICATION: Final = 3
FILL_WAIT_S: Final = 900.0
END_WAIT_S: Final = 30.0
END_SEGMENT_BYTES: Final = 1 << 20
"""The minimum in Apache Kafka."""
END_SHARE: Final = 0.01
"""Share of the records that come after `segment.bytes` was lowered: they close open segments, and little stays open."""
VALUES: Final = 5_000
"""Distinct values in a codec's topic."""


@dataclass(frozen=True, slots=True)
class Topic:
    """`records` of `record_bytes` (values without keys), spread at random over `partitions`."""

    name: str
    partitions: int
    records: int
    record_bytes: int
    segment_bytes: int

    @property
    def value_bytes(self) -> int:
        return self.records * self.record_bytes


def make(side: Side, topic: Topic, configs: Mapping[str, str] | None = None) -> None:
    """Raises AdminFailed."""
    given = {"segment.bytes": str(topic.segment_bytes), **(configs or {})}
    create_topic(side.addresses, create_topics_request(topic.name, topic.partitions, REPLICATION, given))
    wait_for_leaders(side.addresses, topic.name, topic.partitions)


def fill(side: Side, topic: Topic, client: Client) -> float:
    """Create the topic and fill it with an idempotent librdkafka producer; the seconds taken. Raises FillFailed."""
    make(side, topic)
    at_the_end = int(topic.records * END_SHARE)
    seconds = _produce(side, topic, client, topic.records - at_the_end)
    lower_segment_bytes(side.bootstrap, topic.name)
    seconds += _produce(side, topic, client, at_the_end)
    os.sync()  # so that later parts do not wait for these disk writes
    if (count := count_of(side.bootstrap, topic)) != topic.records:
        raise FillFailed(f"{topic.name} of {side.name} has {count} records, not {topic.records}")
    return round(seconds, 1)


def drop(side: Side, topic: Topic) -> None:
    """Delete the topic, which frees its page cache for others. Raises FillFailed."""
    admin = AdminClient({"bootstrap.servers": side.bootstrap})
    try:
        for future in admin.delete_topics([topic.name]).values():
            future.result(END_WAIT_S)
    except KafkaException as error:
        raise FillFailed(f"{topic.name} of {side.name} could not be deleted: {error}") from None


def _produce(side: Side, topic: Topic, client: Client, records: int) -> float:
    began = time.monotonic()
    try:
        done = client.produce(
            side.bootstrap,
            side.pids,
            topic.name,
            topic.partitions,
            record_bytes=topic.record_bytes,
            warm_s=0,
            seconds=FILL_WAIT_S,
            records_max=records,
            guarantees=Guarantees(is_idempotent=True),
        )
    except LoadFailed as error:
        raise FillFailed(f"{topic.name} of {side.name}: {error}") from None
    if done["produced"] != records:
        raise FillFailed(
            f"{topic.name} of {side.name} got {done['produced']} of {records} records in {FILL_WAIT_S:g} s"
        )
    return time.monotonic() - began


def fill_compressed(side: Side, topic: Topic, codec: str) -> None:
    """Like `fill`, with values that compress about as well as JSON. Raises FillFailed."""
    make(side, topic)
    failures: list[str] = []

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failures.append(error.str())

    random = Random(1)
    values = [value_of(topic.record_bytes, random) for _ in range(min(VALUES, topic.records))]
    producer = Producer({"bootstrap.servers": side.bootstrap, "enable.idempotence": True, "compression.type": codec})
    for number in range(topic.records):
        value = values[number * 7919 % len(values)]
        while True:
            try:
                producer.produce(topic.name, value, partition=number % topic.partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(FILL_WAIT_S)
    if left or failures:
        raise FillFailed(f"{topic.name}: {left} records without an answer; {failures[:3]}")


def lower_segment_bytes(bootstrap: str, topic: str) -> None:
    """Raises FillFailed."""
    entry = ConfigEntry("segment.bytes", str(END_SEGMENT_BYTES), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": bootstrap})
    try:
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(END_WAIT_S)
    except KafkaException as error:
        raise FillFailed(f"segment.bytes of {topic} could not be lowered: {error}") from None


# -- What is in it -----------------------------------------------------------------------------------------------------


def count_of(bootstrap: str, topic: Topic) -> int:
    """Number of offsets in all partitions."""
    return sum(end - begin for begin, end in offsets_of(bootstrap, topic).values())


def offsets_of(bootstrap: str, topic: Topic) -> dict[int, tuple[int, int]]:
    """Each partition's first offset and end."""
    consumer = _consumer(bootstrap)
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic.name, number), END_WAIT_S)
            for number in range(topic.partitions)
        }
    finally:
        consumer.close()


def last_tenth_ms(bootstrap: str, topic: Topic) -> int:
    """A time after which about a tenth of the records come: the median of the partitions' timestamps at nine tenths.

    Raises FillFailed.
    """
    consumer = _consumer(bootstrap)
    try:
        return round(
            statistics.median(
                _timestamp_at(consumer, topic.name, number, begin + (end - begin) * 9 // 10)
                for number, (begin, end) in offsets_of(bootstrap, topic).items()
            )
        )
    finally:
        consumer.close()


def _timestamp_at(consumer: Consumer, topic: str, partition: int, offset: int) -> int:
    consumer.assign([TopicPartition(topic, partition, offset)])
    message = consumer.poll(END_WAIT_S)
    if message is None or message.error():
        raise FillFailed(f"{topic}-{partition} has nothing at offset {offset}: {message and message.error()}")
    return int(message.timestamp()[1])


def _consumer(bootstrap: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
