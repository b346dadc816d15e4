"""The clients of a soak, stock ones, each in a thread of its own: idempotent producers and readers. Members: group.py."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.soak.history import Acknowledged, Origin, Reading, Sightings, payload
from tests.soak.stalls import StallWatch

# What is still unanswered this long after it was sent is reported as a failure of the server.
MESSAGE_TIMEOUT_MS: Final = 180_000
FLUSH_TIMEOUT_S: Final = 90.0
JOIN_TIMEOUT_S: Final = 30.0
TICK_S: Final = 0.01
READER_NAME: Final = "reader"
BATCH_RECORDS_MAX: Final = 10_000
FAILURES_MAX: Final = 20
PATIENT: Final[Mapping[str, Any]] = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500, "log_level": 0}
_REFUSED_LOGIN: Final = "invalid credentials"
"""Kafka's words beside SASL_AUTHENTICATION_FAILED; librdkafka's code is that of a connection lost in a login, too."""
_FATAL: Final = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._FATAL,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


class Client:
    """A thread that calls `step` until it is told to finish. An exception in it is a failure of the soak.

    `end_wait_s`: how long its thread may take to end then.
    """

    end_wait_s: float = JOIN_TIMEOUT_S

    def __init__(self, name: str) -> None:
        self.failures: list[str] = []
        self._name = name
        self._started_s = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._started_s = time.monotonic()
        self._thread.start()

    def finish(self) -> None:
        """Returns when its thread has ended."""
        self._is_over.set()
        if self._thread.ident is None:
            return  # it was never started
        self._thread.join(self.end_wait_s)
        if self._thread.is_alive():
            self.fail("did not end when it was told to")

    def fail(self, what: str) -> None:
        if len(self.failures) < FAILURES_MAX:
            since_s = time.monotonic() - self._started_s if self._started_s else 0.0
            self.failures.append(f"{self._name} at {since_s:.1f} s: {what}")

    def note_error(self, error: KafkaError) -> None:
        """A server that is away is what a soak is about; a record that is gone, or a login refused for good, is not."""
        if error.code() in _FATAL or error.fatal() or _REFUSED_LOGIN in error.str():
            self.fail(error.str())

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self.step()
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")

    def step(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Give back what it holds, after `finish`."""


class SteadyProducer(Client):
    """Idempotent, acks=all: so many records per second, over all partitions in turn, whatever happens to the servers."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        number: int,
        partitions: int,
        records_per_s: int,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(f"producer {number}")
        self.acknowledged = Acknowledged()
        self.watch = StallWatch(self._name)
        self._topic = topic
        self._number = number
        self._partitions = partitions
        self._records_per_s = records_per_s
        self._sequences = [0] * partitions
        self._began_s = 0.0
        self.sent_count = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "message.timeout.ms": MESSAGE_TIMEOUT_MS,
                "queue.buffering.max.messages": 500_000,
                "retry.backoff.ms": 20,
                # Without one a fatal error is raised in the middle of the reports of deliveries.
                "error_cb": self.note_error,
                **PATIENT,
                **(settings or {}),
            }
        )

    def step(self) -> None:
        self._began_s = self._began_s or time.monotonic()
        due_count = int((time.monotonic() - self._began_s) * self._records_per_s)
        while self.sent_count < due_count and not self._is_over.is_set():
            if not self._send_one():
                break
        self._producer.poll(TICK_S)

    def _send_one(self) -> bool:
        """False when its queue is full: an hour-long stall must not become an out-of-memory error."""
        partition = self.sent_count % self._partitions
        origin = Origin(self._number, self._sequences[partition])
        try:
            self._producer.produce(
                self._topic,
                payload(partition, origin),
                partition=partition,
                on_delivery=lambda error, message: self._delivered(origin, error, message),
            )
        except BufferError:
            return False
        self._sequences[partition] += 1
        self.sent_count += 1
        return True

    def _delivered(self, origin: Origin, error: KafkaError | None, message: Message) -> None:
        partition = message.partition()
        assert partition is not None
        if error is not None:
            self.fail(f"{origin} to partition {partition} failed: {error.str()}")
            return
        offset = message.offset()
        if offset is None or offset < 0:
            self.acknowledged.add_anywhere(partition, origin)
        else:
            self.acknowledged.add(partition, origin, offset)
        self.watch.heard_of(partition, time.monotonic())

    def finish(self) -> None:
        """Stop sending and wait until every record has its answer."""
        super().finish()
        unanswered = self._producer.flush(FLUSH_TIMEOUT_S)
        if unanswered:
            self.fail(f"{unanswered} records had no answer {FLUSH_TIMEOUT_S:g} s after the end")
        if self.acknowledged.count + len(self.failures) < self.sent_count:
            self.fail(f"{self.sent_count} records were sent and {self.acknowledged.count} acknowledged")


class Reader(Client):
    """Reads all partitions from offset 0 on, assigned by hand. An offset that is gone or out of range is a failure."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        sightings: Sequence[Sightings],
        name: str = READER_NAME,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(name)
        self.readings = {partition: Reading(partition) for partition in range(len(sightings))}
        self.watch = StallWatch(name)
        self._topic = topic
        self._sightings = sightings
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group_of(name),
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 10,
                **PATIENT,
                **(settings or {}),
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in self.readings])

    def step(self) -> None:
        for message in self._consumer.consume(BATCH_RECORDS_MAX, timeout=0.1):
            self._take(message)

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            self.note_error(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None and offset is not None and value is not None
        self.watch.heard_of(partition, time.monotonic())
        origin = self.readings[partition].add(offset, value)
        problem = None if origin is None else self._sightings[partition].add(offset, origin)
        if problem:
            self.fail(problem)

    def ends(self) -> dict[int, int]:
        """End offsets of now."""
        return {
            partition: self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=20)[1]
            for partition in self.readings
        }

    def read_to(self, ends: dict[int, int], timeout_s: float) -> None:
        """Read in this thread, which is nobody else's then, until it has everything below `ends`."""
        deadline_s = time.monotonic() + timeout_s
        while any(len(self.readings[partition]) < end for partition, end in ends.items()):
            if self.failures or time.monotonic() > deadline_s:
                found = {partition: len(reading) for partition, reading in self.readings.items()}
                self.fail(f"read {found} records of {ends} within {timeout_s:g} s")
                return
            self.step()

    def read_once(self, timeout_s: float) -> dict[int, int]:
        """Read all that is there now in this thread, and close. Returns where it ended. Raises KafkaException."""
        try:
            ends = self.ends()
            self.read_to(ends, timeout_s)
        finally:
            self.close()
        return ends

    def close(self) -> None:
        self._consumer.close()


def group_of(reader: str) -> str:
    """The group of a reader of this name; it commits nothing."""
    return reader.replace(" ", "-")


def run_all(clients: Sequence[Client], action: Callable[[Client], Any]) -> None:
    """`action` for all at the same time: ending them one after the other would add their waits up."""
    threads = [threading.Thread(target=action, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
