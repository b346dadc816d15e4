"""The clients of a soak, stock ones, each in a thread of its own: idempotent producers, readers, members of a group."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from tests.soak.history import Acknowledged, Origin, Reading, payload
from tests.soak.stalls import StallWatch

# What is still unanswered this long after it was sent is reported as a failure of the server.
MESSAGE_TIMEOUT_MS: Final = 180_000
FLUSH_TIMEOUT_S: Final = 90.0
JOIN_TIMEOUT_S: Final = 30.0
TICK_S: Final = 0.01
BATCH_RECORDS_MAX: Final = 10_000
COMMIT_INTERVAL_S: Final = 1.0
FAILURES_MAX: Final = 20
_PATIENT: Final = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 500, "log_level": 0}
_FATAL: Final = (
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError.OFFSET_OUT_OF_RANGE,
    KafkaError._FATAL,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


class Client:
    """A thread that calls `step` until it is told to finish. An exception in it is a failure of the soak."""

    def __init__(self, name: str) -> None:
        self.failures: list[str] = []
        self._name = name
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Returns when its thread has ended."""
        self._is_over.set()
        if self._thread.ident is None:
            return  # it was never started
        self._thread.join(JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            self.fail("did not end when it was told to")

    def fail(self, what: str) -> None:
        if len(self.failures) < FAILURES_MAX:
            self.failures.append(f"{self._name}: {what}")

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                self.step()
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")

    def step(self) -> None:
        raise NotImplementedError


class SteadyProducer(Client):
    """Idempotent, acks=all: so many records per second, over all partitions in turn, whatever happens to the server."""

    def __init__(self, bootstrap: str, topic: str, number: int, partitions: int, records_per_s: int) -> None:
        super().__init__(f"producer {number}")
        self.acknowledged = Acknowledged()
        self.watch = StallWatch()
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
                **_PATIENT,
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
        assert offset is not None
        self.acknowledged.add(partition, origin, offset)
        self.watch.acknowledged(partition, time.monotonic())

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

    def __init__(self, bootstrap: str, topic: str, partitions: int, name: str = "reader") -> None:
        super().__init__(name)
        self.readings = {partition: Reading(partition) for partition in range(partitions)}
        self._topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": name.replace(" ", "-"),
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.queue.backoff.ms": 10,
                **_PATIENT,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])

    def step(self) -> None:
        for message in self._consumer.consume(BATCH_RECORDS_MAX, timeout=0.1):
            _take(self, message, self.readings)

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

    def close(self) -> None:
        self._consumer.close()


class Member(Client):
    """One of a group: what the members got together has no gap, and starts again at most where they committed."""

    def __init__(self, bootstrap: str, topic: str, number: int, seen: GroupProgress) -> None:
        super().__init__(f"member {number}")
        self._seen = seen
        self._committed_s = 0.0
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "soak",
                "client.id": f"member-{number}",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                # A member whose join was lost with a killed server holds the others up for as long as this.
                "session.timeout.ms": 10_000,
                "heartbeat.interval.ms": 1_000,
                "fetch.queue.backoff.ms": 10,
                "on_commit": self._on_commit,
                **_PATIENT,
            }
        )
        self._consumer.subscribe([topic])

    def step(self) -> None:
        for message in self._consumer.consume(BATCH_RECORDS_MAX, timeout=0.1):
            error = message.error()
            if error is not None:
                _note_error(self, error)
                continue
            partition, offset = message.partition(), message.offset()
            assert partition is not None and offset is not None
            problem = self._seen.add(partition, offset)
            if problem:
                self.fail(problem)
        if time.monotonic() - self._committed_s > COMMIT_INTERVAL_S:
            self._committed_s = time.monotonic()
            # The server may be away, or the group be rebalancing: what was not committed comes again.
            with contextlib.suppress(KafkaException):
                self._consumer.commit(asynchronous=True)

    def _on_commit(self, error: KafkaError | None, committed: list[TopicPartition]) -> None:
        if error is None:
            for one in committed:
                if one.error is None and one.offset >= 0:
                    self._seen.committed(one.partition, one.offset)

    def close(self) -> None:
        self._consumer.close()


class GroupProgress:
    """Offsets that the members of a group were given and committed, all together. Used from their threads."""

    def __init__(self, partitions: int) -> None:
        self._lock = threading.Lock()
        self._committed = [0] * partitions
        self.next_offsets = [0] * partitions
        self.again_count = 0
        self.commit_count = 0

    def committed(self, partition: int, offset: int) -> None:
        """The server said that it keeps this offset."""
        with self._lock:
            self._committed[partition] = max(self._committed[partition], offset)
            self.commit_count += 1

    def add(self, partition: int, offset: int) -> str | None:
        """What is wrong with it: offsets were skipped, or a commit was forgotten. One that comes again is counted."""
        with self._lock:
            if offset < self._committed[partition]:
                committed, self._committed[partition] = self._committed[partition], offset
                return f"the group committed {committed} of partition {partition} and got offset {offset} again"
            expected = self.next_offsets[partition]
            if offset > expected:
                self.next_offsets[partition] = offset + 1
                return f"the group got offset {offset} of partition {partition} and never {expected} to {offset - 1}"
            if offset == expected:
                self.next_offsets[partition] = offset + 1
            else:
                self.again_count += 1
            return None


def _take(client: Client, message: Message, readings: dict[int, Reading]) -> None:
    error = message.error()
    if error is not None:
        _note_error(client, error)
        return
    partition, offset, value = message.partition(), message.offset(), message.value()
    assert partition is not None and offset is not None and value is not None
    readings[partition].add(offset, value)


def _note_error(client: Client, error: KafkaError) -> None:
    """A server that is away is what a soak is about; a record that is gone is not."""
    if error.code() in _FATAL or error.fatal():
        client.fail(error.str())


def run_all(clients: list[Client], action: Callable[[Client], Any]) -> None:
    """`action` for all at the same time: ending them one after the other would add their waits up."""
    threads = [threading.Thread(target=action, args=(client,)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
