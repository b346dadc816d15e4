"""Delayed records that a stock client produces and another one reads: when each came, and what was wrong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bench.cluster.admin import create_topic, create_topics_request, wait_for_leaders
from bench.workloads import LoadFailed

CONFIGS: Final = {"bmq.delay.enable": "true", "bmq.delay.max.ms": str(90 * 86_400_000)}
TIMER_DUE: Final = "bmq-timer-due"
OFFSET_BEGINNING: Final = -2
POLLED_RECORDS: Final = 2_000
POLL_S: Final = 0.005
"""librdkafka waits so long for further records: it counts as lateness of the first ones."""
FLUSH_S: Final = 120.0


def make_topic(
    addresses: Sequence[str], topic: str, partitions: int, replication: int, *, has_delay: bool = True
) -> None:
    """Raises AdminFailed."""
    create_topic(addresses, create_topics_request(topic, partitions, replication, CONFIGS if has_delay else {}))
    wait_for_leaders(addresses, topic, partitions)


@dataclass(slots=True)
class Acknowledged:
    """`due_ms`: by number of the record, of those that were acknowledged. `failed`: why others were not."""

    due_ms: dict[int, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


class DelayedProducer:
    """Its records are numbers, from 0 on."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, value_bytes: int = 100) -> None:
        self.acknowledged = Acknowledged()
        self._topic, self._partitions = topic, partitions
        self._padding = b"." * value_bytes
        self._bytes = value_bytes
        self._next = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "queue.buffering.max.messages": 200_000,
                "message.timeout.ms": int(FLUSH_S * 1000),
            }
        )

    def produce(self, due_ms: int) -> None:
        number, self._next = self._next, self._next + 1

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self.acknowledged.due_ms[number] = due_ms
            else:
                self.acknowledged.failed.append(str(error))

        value = (b"%d %d " % (number, due_ms) + self._padding)[: self._bytes]
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    value,
                    partition=number % self._partitions,
                    headers=[("bmq-deliver-at", b"%d" % due_ms)],
                    on_delivery=on_delivery,
                )
            except BufferError:
                self._producer.poll(0.05)
            else:
                break
        if not number % 256:
            self._producer.poll(0)

    def finish(self) -> Acknowledged:
        """Raises LoadFailed if some are not acknowledged in FLUSH_S."""
        left = self._producer.flush(FLUSH_S)
        if left:
            raise LoadFailed(f"{left} records were not acknowledged within {FLUSH_S:g} s")
        return self.acknowledged


@dataclass(slots=True)
class Received:
    """What a consumer got. `errors_ms`: how long behind its due time it had each record."""

    errors_ms: list[int] = field(default_factory=list)
    times: dict[int, int] = field(default_factory=dict)
    doubled: int = 0
    early: int = 0
    disordered: int = 0
    _last: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, message: Message, now_ms: int) -> None:
        value = message.value()
        assert value is not None
        number, asked_ms = map(int, bytes(value).split(b" ", 2)[:2])
        count = self.times.get(number, 0)
        self.times[number] = count + 1
        self.doubled += count > 0
        found: Mapping[str, bytes] = dict(message.headers() or ())
        if TIMER_DUE not in found:  # its time had passed when it was appended
            self.early += now_ms < asked_ms
            return
        due_ms, partition = int(found[TIMER_DUE]), message.partition()
        assert partition is not None
        place = due_ms, int(found["bmq-timer-offset"])
        self.errors_ms.append(now_ms - due_ms)
        self.early += now_ms < asked_ms or message.timestamp()[1] < due_ms or due_ms < asked_ms
        self.disordered += self._last.get(partition, (-1, -1)) >= place
        self._last[partition] = place

    def wrong(self, acknowledged: Acknowledged) -> dict[str, int]:
        lost = sum(number not in self.times for number in acknowledged.due_ms)
        found = {"lost": lost, "doubled": self.doubled, "early": self.early, "disordered": self.disordered}
        return {**found, "wrong": sum(found.values())}


class DelayedConsumer:
    """Reads all partitions from their beginning."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.received = Received()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "timers",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])

    def poll(self, timeout_s: float = POLL_S) -> int:
        """How many came."""
        found: Iterable[Message] = self._consumer.consume(POLLED_RECORDS, timeout_s)
        now_ms, count = time.time_ns() // 1_000_000, 0
        for message in found:
            if message.error() is None:
                self.received.add(message, now_ms)
                count += 1
        return count

    def poll_until(self, is_done: Callable[[], bool], timeout_s: float) -> bool:
        """Whether it was done in time."""
        deadline_s = time.monotonic() + timeout_s
        while not is_done():
            if time.monotonic() > deadline_s:
                return False
            self.poll()
        return True

    def close(self) -> None:
        self._consumer.close()


def percentiles(errors_ms: Sequence[int]) -> dict[str, Any]:
    ordered = sorted(errors_ms)
    if not ordered:
        raise LoadFailed("no record came")
    names = {"error_p50_ms": 0.5, "error_p99_ms": 0.99, "error_max_ms": 1.0}
    return {name: ordered[min(len(ordered) - 1, int(len(ordered) * part))] for name, part in names.items()}
