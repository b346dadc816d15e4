"""Reads ranges of partitions, or as a member of a group, with librdkafka's consumer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, Final

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka import KafkaError as ClientError

from bmq.cli.kafka.client import ANSWER_WAIT_S, KafkaClient, failure, kafka_errors
from bmq.cli.kafka.model import KafkaFailed, Partition
from bmq.cli.kafka.record_lines import Header, ReadRecord
from bmq.consuming import messages_there
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import NO_TIMESTAMP_MS

BATCH_MAX: Final = 500
_POLL_S: Final = 0.2
_EVERYTHING: Final = 1 << 62
_NO_TIMESTAMP: Final = 0
_PASSING: Final = frozenset({ClientError._ALL_BROKERS_DOWN, ClientError._TRANSPORT, ClientError._TIMED_OUT})


def read_ranges(
    client: KafkaClient,
    ranges: Mapping[Partition, tuple[int, int | None]],
    *,
    is_committed: bool,
    limit: int | None = None,
) -> Generator[list[ReadRecord], None, None]:
    """Records of each partition from the first offset on and before the second one; None: for ever. At most `limit`.

    Lists may be empty: then nothing came for a moment. In order within a partition. Raises KafkaFailed when nobody answers
    while some range has an end.
    """
    open_ranges = {at: end for at, (start, end) in ranges.items() if end is None or start < end}
    if not open_ranges:
        return
    left = _EVERYTHING if limit is None else limit
    has_ends = None not in open_ranges.values()
    config = _consumer_config(client, is_committed=is_committed) | {"group.id": f"bmq-{uuid.uuid4()}"}
    with kafka_errors("records cannot be read"), closing(Consumer(config)) as consumer:
        consumer.assign([TopicPartition(*at, ranges[at][0]) for at in open_ranges])
        heard_s = time.monotonic()
        while open_ranges and left:
            messages = list(messages_there(consumer, BATCH_MAX, _POLL_S))
            records = []
            done = []
            for message in messages:
                at = message.topic() or "", message.partition() or 0
                if at not in open_ranges or (error := _error(message)) is _PASSES:
                    continue
                heard_s = time.monotonic()
                end = open_ranges[at]
                if error is _IS_END:
                    is_done = end is not None and (message.offset() or 0) >= end
                else:
                    record = record_of(message)
                    is_done = end is not None and record.offset >= end - 1
                    if (end is None or record.offset < end) and left:
                        records.append(record)
                        left -= 1
                if is_done:
                    del open_ranges[at]
                    done.append(TopicPartition(*at))
            if done:
                consumer.pause(done)
            if has_ends and open_ranges and time.monotonic() - heard_s > ANSWER_WAIT_S:
                raise KafkaFailed(
                    f"records cannot be read: no answer within {ANSWER_WAIT_S:g} s", ErrorCode.REQUEST_TIMED_OUT
                )
            yield records


def read_as_member(
    client: KafkaClient,
    topics: list[str],
    group: str,
    *,
    is_committed: bool,
    is_followed: bool,
    limit: int | None = None,
) -> Generator[list[ReadRecord], None, None]:
    """Records from the group's committed offsets on, else from the beginning.

    What was yielded is committed when the next list is asked for, and at the end. Without `is_followed` it ends where all
    partitions it was assigned end. At most `limit` records; the next member begins behind them.
    """
    left = _EVERYTHING if limit is None else limit
    config = _consumer_config(client, is_committed=is_committed) | {
        "group.id": group,
        "enable.auto.commit": True,
        "enable.auto.offset.store": False,
    }
    ended: set[Partition] = set()
    with kafka_errors(f"records cannot be read as a member of group {group!r}"), closing(Consumer(config)) as consumer:
        consumer.subscribe(topics)
        heard_s = time.monotonic()
        while True:
            messages = list(messages_there(consumer, BATCH_MAX, _POLL_S))
            records: list[ReadRecord] = []
            for message in messages:
                at = message.topic() or "", message.partition() or 0
                error = _error(message)
                if error is _PASSES:
                    continue
                heard_s = time.monotonic()
                if error is _IS_END:
                    ended.add(at)
                elif len(records) < left:
                    ended.discard(at)
                    records.append(record_of(message))
            yield records
            left -= len(records)
            if records:
                places = {(record.topic, record.partition): record.offset + 1 for record in records}
                consumer.store_offsets(offsets=[TopicPartition(*at, offset) for at, offset in places.items()])
            assigned = {(at.topic, at.partition) for at in consumer.assignment()}
            if assigned:
                heard_s = time.monotonic() if assigned <= ended else heard_s
                if not is_followed and assigned <= ended:
                    return
            if not left:
                return
            if not is_followed and time.monotonic() - heard_s > ANSWER_WAIT_S:
                raise KafkaFailed(
                    f"group {group!r} gave this member no partitions and no records within {ANSWER_WAIT_S:g} s",
                    ErrorCode.REQUEST_TIMED_OUT,
                )


_PASSES: Final = object()
_IS_END: Final = object()


def _error(message: Message) -> object | None:
    """Raises KafkaFailed for an error that stays."""
    error = message.error()
    if error is None:
        return None
    if error.code() == ClientError._PARTITION_EOF:
        return _IS_END
    if error.retriable() or error.code() in _PASSING:
        return _PASSES
    raise failure("records cannot be read", error)


def record_of(message: Message) -> ReadRecord:
    """A message as it is shown. The library gives no headers at all when a name is not UTF-8."""
    kind, timestamp_ms = message.timestamp()
    headers, fault = message_headers(message)
    return ReadRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        None if kind == _NO_TIMESTAMP or timestamp_ms == NO_TIMESTAMP_MS else timestamp_ms,
        message.key(),
        message.value(),
        headers,
        fault,
    )


def message_headers(message: Message) -> tuple[tuple[Header, ...], str]:
    """Its headers; else none, and why."""
    try:
        return tuple(message.headers() or ()), ""
    except (SystemError, UnicodeDecodeError):
        return (), "its headers are left out, since a name in them is not UTF-8"


def _consumer_config(client: KafkaClient, *, is_committed: bool) -> dict[str, Any]:
    return {
        **client.config,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",  # retention may take what was there a moment ago
        "enable.partition.eof": True,
        "isolation.level": "read_committed" if is_committed else "read_uncommitted",
    }
