"""What librdkafka's consumer is shown of a topic, and how far it is shown."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from testing.processes import eventually

ENDS_WAIT_S: Final = 60.0
READ_WAIT_S: Final = 60.0
LEVELS: Final = {
    "read_committed": IsolationLevel.READ_COMMITTED,
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
}
Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]


class Record(NamedTuple):
    key: bytes | None
    value: bytes


def end_offsets(bootstrap: str, topic: str, partitions: int, isolation: Isolation) -> list[int]:
    """By partition: the last stable offset, or the high watermark. Raises AssertionError."""
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in range(partitions)}

    def asked() -> dict[int, int] | None:
        """None while owners change. A client that has asked the last owner once goes on to ask it: so one for each try."""
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        answers = admin.list_offsets(wanted, isolation_level=LEVELS[isolation], request_timeout=30)
        try:
            return {where.partition: answer.result(timeout=40).offset for where, answer in answers.items()}
        except KafkaException:
            return None

    by_number = eventually(asked, ENDS_WAIT_S, "the end offsets of all partitions")
    assert by_number is not None
    return [by_number[number] for number in range(partitions)]


def records_of(
    bootstrap: str, topic: str, partitions: int = 1, isolation: Isolation = "read_committed"
) -> dict[int, list[Record]]:
    """By partition, in order, up to the end of now or somewhat past it, also of a topic that grows. Raises AssertionError."""
    ends = dict(enumerate(end_offsets(bootstrap, topic, partitions, isolation)))
    records: dict[int, list[Record]] = {number: [] for number in ends}
    left = {number for number, end_offset in ends.items() if end_offset}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])

    def take(message: Message) -> None:
        partition, offset, error = message.partition(), message.offset(), message.error()
        assert partition is not None
        if error is not None:
            # The last offset may be a marker's, which no client is shown.
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard(partition)
            return
        key, value = message.key(), message.value()
        assert offset is not None and isinstance(value, bytes) and not isinstance(key, str)
        records[partition].append(Record(key, value))
        if offset >= ends[partition] - 1:
            left.discard(partition)

    def is_read() -> bool:
        for message in consumer.consume(1_000, timeout=0.5) if left else ():
            take(message)
        return not left

    try:
        eventually(is_read, READ_WAIT_S, "the ends of the partitions are reached", interval_s=0)
    finally:
        consumer.close()
    return records


def values_of(
    bootstrap: str, topic: str, partitions: int = 1, isolation: Isolation = "read_committed"
) -> dict[int, list[bytes]]:
    """As `records_of`."""
    records = records_of(bootstrap, topic, partitions, isolation)
    return {number: [record.value for record in found] for number, found in records.items()}
