"""Writes records with librdkafka's idempotent producer, with a bounded number on their way."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError as ClientError
from confluent_kafka import KafkaException, Message, Producer

from bmq.cli.kafka.client import KafkaClient, failure, kafka_errors
from bmq.cli.kafka.model import Partition
from bmq.cli.kafka.record_lines import NewRecord

QUEUE_RECORDS_MAX: Final = 10_000
FLUSH_WAIT_S: Final = 1.0
_POLL_S: Final = 0.1
_ACKS: Final = frozenset({"acks", "request.required.acks"})


class Writer:
    """Writes to one topic. `written`: acknowledged records by partition. `failed`: how many were not."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self._topic = topic
        self._what = f"records cannot be written to topic {topic!r}"
        self._first_error: ClientError | None = None
        self.written: dict[Partition, int] = {}
        self.failed = 0
        config: dict[str, Any] = {
            "enable.idempotence": not _ACKS & client.config.keys(),  # which needs acks=all
            "partitioner": "murmur2_random",  # as Java's clients have it: librdkafka's own is another one
            "linger.ms": 5,
            "queue.buffering.max.messages": QUEUE_RECORDS_MAX,
            **client.config,
        }
        with kafka_errors(self._what):
            self._producer = Producer(config)

    @property
    def written_count(self) -> int:
        return sum(self.written.values())

    def write(self, record: NewRecord) -> None:
        """Hand one over; waits while the queue is full. Raises KafkaFailed once any record has failed."""
        with kafka_errors(self._what):
            while True:
                try:
                    self._producer.produce(
                        self._topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=-1 if record.partition is None else record.partition,
                        timestamp=0 if record.timestamp_ms is None else record.timestamp_ms,
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:
                    self._producer.poll(_POLL_S)
            self._producer.poll(0)
        self._raise()

    def flush(self) -> None:
        """Wait until everything is acknowledged or has failed (message.timeout.ms). Raises KafkaFailed."""
        with kafka_errors(self._what):
            while self._producer.flush(FLUSH_WAIT_S):
                pass  # in short waits, so that an interruption is heard
        self._raise()

    def _delivered(self, error: ClientError | None, message: Message) -> None:
        if error is None:
            at = self._topic, message.partition() or 0
            self.written[at] = self.written.get(at, 0) + 1
        else:
            self.failed += 1
            self._first_error = self._first_error or error

    def _raise(self) -> None:
        if self._first_error is not None:
            raise failure(self._what, self._first_error) from KafkaException(self._first_error)
