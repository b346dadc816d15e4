"""The index's topic as a Kafka client sees it: its id and ends, records from some offsets on, and single records.

librdkafka's client, as everywhere in bmq's tools; one consumer is kept for all reads of a `TopicLog`, which is for one thread.
Only committed records are read. `TopicLog` is a bmq.index.topic_reader.TopicReader.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka import KafkaError as ClientError
from confluent_kafka.admin import AdminClient, OffsetSpec

from bmq.consuming import messages_there
from bmq.index.errors import QueryTimedOut, SourceAway
from bmq.index.topic_reader import LogRecord, Tail, TopicState
from bmq.protocol.record_batch import NO_TIMESTAMP_MS

ANSWER_WAIT_S: Final = 10.0
_BATCH_MAX: Final = 500
_POLL_S: Final = 0.05
_SKIP_MAX: Final = 2_000
"""Offsets that are read and left out rather than jumped over."""
_NO_TIMESTAMP: Final = 0
_PASSING: Final = frozenset({ClientError._ALL_BROKERS_DOWN, ClientError._TRANSPORT, ClientError._TIMED_OUT})
_CONSUMER: Final[Mapping[str, Any]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "earliest",  # retention may take what was there a moment ago
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 20,
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 1_048_576,
    "allow.auto.create.topics": False,
}


class TopicLog:
    """`config`: librdkafka's settings, with `bootstrap.servers`. Call `close` at the end."""

    def __init__(self, config: Mapping[str, str], *, answer_wait_s: float = ANSWER_WAIT_S) -> None:
        """`answer_wait_s`: for each answer of the cluster. Raises SourceAway: librdkafka refuses a setting."""
        self._answer_wait_s = answer_wait_s
        self._config = {"log_level": "2", **config}
        with _client_errors("the client cannot be set up"):
            self._admin = AdminClient(self._config)
        self._consumer: Consumer | None = None

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def state(self, topic: str) -> TopicState | None:
        """The present state; None: there is no such topic. Raises SourceAway."""
        with _client_errors(f"topic {topic} cannot be asked for"):
            asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=self._answer_wait_s)[topic]
            try:
                described = asked.result(timeout=self._answer_wait_s)
            except KafkaException as error:
                if error.args[0].code() == ClientError.UNKNOWN_TOPIC_OR_PART:
                    return None
                raise
            numbers = [each.id for each in described.partitions]
            starts, ends = (
                self._offsets(topic, numbers, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
            )
        identity = described.topic_id
        bits = (identity.get_most_significant_bits() << 64) | (identity.get_least_significant_bits() & (2**64 - 1))
        return TopicState(uuid.UUID(int=bits & (2**128 - 1)), starts, ends)

    def scan(
        self,
        topic: str,
        ranges: Mapping[int, tuple[int, int]],
        take: Callable[[LogRecord], None],
        *,
        bytes_max: int,
        deadline_s: float,
    ) -> Tail:
        """Read ranges of offsets; `take` gets each record, in order within a partition.

        Ends early when `bytes_max` bytes were read (`scanned_bytes`), or at `deadline_s` (of time.monotonic): then `reached`
        is below the end of some range. Raises SourceAway: nobody answers.
        """
        reached = {partition: start for partition, (start, _) in ranges.items()}
        records = size = 0
        with self._assigned(topic, reached) as consumer:
            left = dict(ranges)
            for message in _messages(consumer, deadline_s):
                partition, offset = message.partition() or 0, message.offset() or 0
                if partition not in left:
                    continue
                end = left[partition][1]
                if _is_end(message):
                    # Offsets without records (markers, compacted ones) are passed without a message.
                    reached[partition] = max(reached[partition], min(offset, end))
                elif offset < end:
                    record = record_of(message)
                    take(record)
                    records += 1
                    size += record.scanned_bytes
                    reached[partition] = offset + 1
                else:
                    reached[partition] = end
                if reached[partition] >= end:
                    del left[partition]
                    consumer.pause([TopicPartition(topic, partition)])
                if not left or size >= bytes_max:
                    break
        return Tail(reached, records, size)

    def fetch(
        self, topic: str, offsets: Mapping[int, Sequence[int]], *, bytes_max: int, deadline_s: float
    ) -> dict[tuple[int, int], LogRecord | None]:
        """The records at these offsets, ascending in each partition; None: it is gone. Raises SourceAway, QueryTimedOut.

        Positions are missing from the answer once `bytes_max` bytes were read.
        """
        found: dict[tuple[int, int], LogRecord | None] = {}
        wanted = {partition: list(reversed(list(each))) for partition, each in offsets.items() if each}
        size = 0
        while wanted and size < bytes_max:
            with self._assigned(topic, {partition: each[-1] for partition, each in wanted.items()}) as consumer:
                size += _fetch_round(consumer, wanted, found, bytes_max - size, deadline_s)
            if wanted and size < bytes_max and time.monotonic() >= deadline_s:
                raise QueryTimedOut(
                    "the records of the answer could not be read in time; ask for fewer, or for positions only"
                )
        return found

    def _offsets(self, topic: str, numbers: Sequence[int], spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, number): spec for number in numbers}
        futures = self._admin.list_offsets(
            asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=self._answer_wait_s
        )
        return {place.partition: future.result(timeout=self._answer_wait_s).offset for place, future in futures.items()}

    @contextmanager
    def _assigned(self, topic: str, starts: Mapping[int, int]) -> Iterator[Consumer]:
        with _client_errors(f"topic {topic} cannot be read"):
            if self._consumer is None:
                self._consumer = Consumer({**self._config, **_CONSUMER, "group.id": f"bmq-index-{uuid.uuid4()}"})
            places = [TopicPartition(topic, partition, start) for partition, start in starts.items()]
            self._consumer.assign(places)
            try:
                yield self._consumer
            finally:
                # A partition stays paused over its assignments. A resume behind `assign` may meet the library's first look at
                # the partition, and the next look is a second later.
                self._consumer.resume(places)
                self._consumer.unassign()


def record_of(message: Message) -> LogRecord:
    """A message's record. The library gives no headers at all when a name is not UTF-8."""
    kind, timestamp_ms = message.timestamp()
    try:
        headers = tuple(message.headers() or ())
    except (SystemError, UnicodeDecodeError):
        headers = ()
    return LogRecord(
        message.partition() or 0,
        message.offset() or 0,
        None if kind == _NO_TIMESTAMP or timestamp_ms == NO_TIMESTAMP_MS else timestamp_ms,
        message.key(),
        message.value(),
        headers,
    )


def _fetch_round(
    consumer: Consumer,
    wanted: dict[int, list[int]],
    found: dict[tuple[int, int], LogRecord | None],
    bytes_max: int,
    deadline_s: float,
) -> int:
    """Read until a partition has to jump ahead, or all is found. `wanted`: descending. Returns the bytes of the records."""
    size = 0
    for message in _messages(consumer, deadline_s):
        partition, offset = message.partition() or 0, message.offset() or 0
        left = wanted.get(partition)
        if left is None:
            continue
        while left and left[-1] < offset:  # the log goes on behind it: it was compacted away
            found[partition, left.pop()] = None
        if left and left[-1] == offset and not _is_end(message):
            record = record_of(message)
            found[partition, left.pop()] = record
            size += len(record.key or b"") + len(record.value or b"")
        elif left and _is_end(message):
            while left:
                found[partition, left.pop()] = None
        if not left:
            del wanted[partition]
            consumer.pause([TopicPartition(message.topic(), partition)])
        if not wanted or size >= bytes_max or (left and left[-1] - offset > _SKIP_MAX):
            break
    return size


def _messages(consumer: Consumer, deadline_s: float) -> Iterator[Message]:
    """Messages and ends of partitions, until the deadline. Raises KafkaException, SourceAway."""
    heard_s = time.monotonic()
    while (now_s := time.monotonic()) < deadline_s:
        for message in messages_there(consumer, _BATCH_MAX, min(_POLL_S, deadline_s - now_s)):
            error = message.error()
            if error is None or error.code() == ClientError._PARTITION_EOF:
                heard_s = time.monotonic()
                yield message
            elif not error.retriable() and error.code() not in _PASSING:
                raise KafkaException(error)
        if time.monotonic() - heard_s > ANSWER_WAIT_S:
            raise SourceAway(f"the topic cannot be read: no answer within {ANSWER_WAIT_S:g} s")


def _is_end(message: Message) -> bool:
    return message.error() is not None


@contextmanager
def _client_errors(what: str) -> Iterator[None]:
    """Raises SourceAway for the library's errors."""
    try:
        yield
    except KafkaException as failed:
        error = failed.args[0]
        raise SourceAway(f"{what}: {error.str() or error.name()}") from failed
    except TimeoutError as failed:
        raise SourceAway(f"{what}: no answer within {ANSWER_WAIT_S:g} s") from failed
    except (ValueError, TypeError) as failed:  # what the library refuses by itself
        raise SourceAway(f"{what}: {failed}") from failed
