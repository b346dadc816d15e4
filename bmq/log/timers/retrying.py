"""Prepares the records of a batch produced to a retry topic: each is held, with its attempt counted. Pure.

The header `bmq-attempt` gets the next number, and that attempt's level says how long the record waits. A record past the last
level is given up: it is held with a mark as its first header, is due at once, and is delivered as a dead letter. A mark that a
producer sends is removed, and so are headers of earlier deliveries (`bmq-timer-…`). All other headers stay, in their order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from bmq.log.opened_batch import opened_body, require_few_headers, require_few_records
from bmq.log.timers.announcements import HeldRecord
from bmq.log.timers.holding import (
    OPENED,
    RefusedDue,
    Split,
    visible_batch,
)
from bmq.protocol.batch_records import Record, varint_bytes
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import LOG_APPEND_TIME, NO_TIMESTAMP_MS, BatchHeader, CorruptRecords
from bmq.protocol.retry_topics import ATTEMPT_HEADER, ORIGINAL_TOPIC_HEADER, SPRING_ORIGINAL_TOPIC_HEADER
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.delay_layout import CREATED_HEADER, DUE_HEADER, OFFSET_HEADER
from bmq.records.records_twin import Damage, append_varint, record_places, varint, wrapped

RECORDS_MAX: Final = 2_000
"""Most records of a batch: each takes some 30 us of the event loop."""
_ATTEMPT: Final = ATTEMPT_HEADER.encode()
_ORIGINAL_TOPIC: Final = ORIGINAL_TOPIC_HEADER.encode()
_SPRING_ORIGINAL_TOPIC: Final = SPRING_ORIGINAL_TOPIC_HEADER.encode()
_MARK: Final = b"bmq-dead-letter"
"""The mark of a held record that is given up. Its value: how often the record was produced to the retry topic."""
_DROPPED: Final = frozenset((_ATTEMPT, _MARK, OFFSET_HEADER, DUE_HEADER, CREATED_HEADER))
_COUNT: Final = re.compile(rb"[0-9]{1,9}")


class Retries(NamedTuple):
    """A retry topic's settings, and the present time.

    `levels_ms`: how long the first, second, … attempt waits. `source`: the topic that the records come from. `floor_ms`: the
    earliest due time.
    """

    levels_ms: tuple[int, ...]
    source: str
    now_ms: int
    floor_ms: int


class GivenUp(NamedTuple):
    """A record of the batch that has no attempts left. `size_bytes`: bytes of its key, value and headers."""

    batch_index: int
    size_bytes: int


class Retried(NamedTuple):
    """A batch for a retry topic, split: all records are held, or some are refused. `given_up`: those that become dead letters."""

    split: Split
    given_up: list[GivenUp]


class DeadBody(NamedTuple):
    attempts: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    def record(self, timestamp_ms: int) -> Record:
        return Record(self.key, self.value, self.headers, timestamp_ms)


class _Header(NamedTuple):
    name: bytes
    value: bytes | None
    begin: int
    end: int


class _AttemptRefused(ValueError):
    """A `bmq-attempt` that is not valid. The message tells the producer why."""


def split_retries(batch: memoryview, header: BatchHeader, retries: Retries, level: int | None = None) -> Retried:
    """Split a batch that has passed record-by-record checks (broker/batch_validation).

    `level`: the compression level of its codec. Raises BatchTooLong, Damage.
    """
    body = opened_body(batch, header, OPENED)
    require_few_records(header, "for a retry topic", RECORDS_MAX)
    require_few_headers(body, header)
    held: list[HeldRecord] = []
    refused: list[RefusedDue] = []
    given_up: list[GivenUp] = []
    has_append_time = header.attributes & LOG_APPEND_TIME
    places = record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS)
    for index, record in enumerate(places):
        headers = list(_headers(body, record.headers, record.stop))
        try:
            attempts = _attempts_before(headers) + 1
        except _AttemptRefused as error:
            refused.append(RefusedDue(index, str(error)))
            continue
        is_dead = attempts > len(retries.levels_ms)
        _, start = varint(body, record.behind_timestamp, record.stop)
        counted = _counted(body, start, record.headers, headers, attempts, retries.source, is_dead=is_dead)
        if is_dead:
            given_up.append(GivenUp(index, len(counted)))
        due_ms = retries.now_ms + (0 if is_dead else retries.levels_ms[attempts - 1])
        own_ms = wrapped(header.base_timestamp_ms + record.timestamp_delta)
        timestamp_ms = header.max_timestamp_ms if has_append_time else own_ms
        held.append(HeldRecord(max(due_ms, retries.floor_ms), timestamp_ms, record.offset_delta, counted))
    if refused:
        return Retried(Split(bytearray(), [], refused), [])
    return Retried(Split(visible_batch(header, b"", 0, NO_TIMESTAMP_MS, level), held, []), given_up)


def dead_body(body: Buffer) -> DeadBody | None:
    """The record in a held body, if it is given up; None if it is to be delivered. Raises CorruptRecords."""
    try:
        key, place = _field(body, 0)
        value, place = _field(body, place)
        headers = _headers(body, place, len(body))
        mark = next(headers, None)
        if mark is None or mark.name != _MARK or mark.value is None or _COUNT.fullmatch(mark.value) is None:
            return None
        rest = [(one.name.decode("utf-8", "surrogateescape"), one.value) for one in headers]
    except Damage as error:
        raise CorruptRecords(f"a held record: {error}") from error
    return DeadBody(int(mark.value), key, value, rest)


def _attempts_before(headers: list[_Header]) -> int:
    """The number in `bmq-attempt`, 0 without the header. Raises _AttemptRefused."""
    found = [one.value for one in headers if one.name == _ATTEMPT]
    if not found:
        return 0
    if len(found) > 1:
        raise _AttemptRefused(f"the header {ATTEMPT_HEADER} is in the record more than once")
    if found[0] is None or _COUNT.fullmatch(found[0]) is None:
        raise _AttemptRefused(f"the header {ATTEMPT_HEADER} is not a number of 1 to 9 ASCII digits")
    return int(found[0])


def _counted(
    body: Buffer,
    start: int,
    headers_place: int,
    headers: list[_Header],
    attempts: int,
    source: str,
    *,
    is_dead: bool,
) -> bytes:
    """The record's bytes from its key's length on, with the headers for this attempt."""
    kept = [one for one in headers if one.name not in _DROPPED]
    before = [(_MARK, b"%d" % attempts)] if is_dead else []
    behind = [] if is_dead else [(_ATTEMPT, b"%d" % attempts)]
    if not any(one.name in (_ORIGINAL_TOPIC, _SPRING_ORIGINAL_TOPIC) for one in kept):
        behind.append((_ORIGINAL_TOPIC, source.encode()))
    out = bytearray(body[start:headers_place])
    append_varint(out, len(before) + len(kept) + len(behind))
    for name, value in before:
        out += _encoded(name, value)
    for one in kept:
        out += body[one.begin : one.end]
    for name, value in behind:
        out += _encoded(name, value)
    return bytes(out)


def _encoded(name: bytes, value: bytes) -> bytes:
    return varint_bytes(len(name)) + name + varint_bytes(len(value)) + value


def _headers(body: Buffer, place: int, stop: int) -> Iterator[_Header]:
    """The headers of a record, whose count lies at `place`. Raises Damage."""
    count, place = varint(body, place, stop)
    for _ in range(count):
        begin = place
        name, place = _field(body, place, stop)
        value, place = _field(body, place, stop)
        yield _Header(name or b"", value, begin, place)


def _field(body: Buffer, place: int, stop: int | None = None) -> tuple[bytes | None, int]:
    """(content or None, the position behind it) of the field at `place`: a length and bytes. Raises Damage, CorruptRecords."""
    stop = len(body) if stop is None else stop
    length, place = varint(body, place, stop)
    if length > stop - place:
        raise CorruptRecords("a held record whose field runs past its end")
    return (None if length < 0 else bytes(body[place : place + length])), place + max(length, 0)
