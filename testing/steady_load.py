"""A producer that numbers records until it is told to finish, and a reader that checks what is there afterwards."""

from __future__ import annotations

import threading

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from testing.processes import eventually
from testing.topic_contents import end_offsets


class SteadyProducer:
    """An idempotent producer in a thread of its own that keeps numbering records until it is told to finish."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, **settings: object) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.failed: list[tuple[int, str]] = []
        self.sent_count = 0
        self._finish = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 2,
                "reconnect.backoff.max.ms": 500,
                "message.timeout.ms": 120_000,
                "queue.buffering.max.messages": 20_000,
                "log_level": 0,
                **settings,
            }
        )
        self._thread = threading.Thread(target=self._run, name="steady-producer")
        self._thread.start()

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        number = int(message.value())
        if error is None:
            self.acknowledged[message.partition(), message.offset()] = number
        else:
            self.failed.append((number, error.str()))

    def _run(self) -> None:
        while not self._finish.is_set():
            try:
                self._producer.produce(
                    self.topic,
                    b"%d" % self.sent_count,
                    partition=self.sent_count % self.partitions,
                    on_delivery=self._on_delivery,
                )
            except BufferError:
                self._producer.poll(0.05)
                continue
            self.sent_count += 1
            self._producer.poll(0.001 if self.sent_count % 50 == 0 else 0)

    def wait_for_acknowledgements(self, count: int, timeout_s: float = 60) -> None:
        target = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= target, timeout_s, f"{count} more acknowledgements")

    def stop(self) -> None:
        """Send no more."""
        self._finish.set()
        self._thread.join(30)

    def finish(self) -> None:
        """Stop sending and wait until every record has its answer."""
        self.stop()
        assert self._producer.flush(90) == 0, "records are still without an answer"


def read_everything(bootstrap: str, topic: str, partitions: int) -> dict[tuple[int, int], int]:
    """Number by (partition, offset), from the beginning to the end offsets of now, also while partitions move."""
    wanted = sum(end_offsets(bootstrap, topic, partitions, "read_uncommitted"))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    found: dict[tuple[int, int], int] = {}

    def complete() -> bool:
        for message in consumer.consume(10_000, timeout=1):
            assert message.error() is None, message.error()
            found[message.partition(), message.offset()] = int(message.value())
        return len(found) >= wanted

    eventually(complete, 60, f"{wanted} records", interval_s=0)
    consumer.close()
    return found


def assert_nothing_lost(producer: SteadyProducer, bootstrap: str) -> None:
    """Every acknowledged record is where it was said to be, once, and in order. After `finish`."""
    assert producer.failed == []
    assert len(producer.acknowledged) == producer.sent_count
    found = read_everything(bootstrap, producer.topic, producer.partitions)
    missing = {where: number for where, number in producer.acknowledged.items() if found.get(where) != number}
    assert not missing, f"{len(missing)} acknowledged records are not where they were said to be: {list(missing)[:5]}"
    assert len(found) == len(set(found.values())), "a record is there twice"
    assert len(found) == producer.sent_count
    for partition in range(producer.partitions):
        numbers = [found[where] for where in sorted(found) if where[0] == partition]
        assert numbers == sorted(numbers), "the order of a partition changed"
