"""Takes the delayed records out of a producer's batch: what is held, and what stays visible. Pure.

The visible batch has the offsets, producer and sequences of the whole one, and no records if all are delayed: as a batch
that Kafka's cleaner leaves. A batch without either header costs one search of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from bmq.log.opened_batch import opened_body, require_few_headers, require_few_records
from bmq.log.timers.announcements import Cancel, HeldRecord, PackedHeld, Position
from bmq.log.timers.cancel_headers import CANCEL, CancelRefused, cancelled_by
from bmq.log.timers.due_headers import COMMON_PREFIX, LEVELS_MS, TIME_MS_MAX, DueRefused, due_ms_of
from bmq.protocol.compression import Buffer, Compression, compress
from bmq.protocol.record_batch import (
    COMPRESSION_MASK,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_MS,
    BatchHeader,
    assemble_batch,
)
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.delay_layout import DelayedSplit, DelayTerms
from bmq.records.delays import split_delays
from bmq.records.records_twin import headers_of, record_places, varint, wrapped

OPENED: Final = "for a topic with delay or half messages"


class RefusedDue(NamedTuple):
    """A record that asks for no time that may be, or cancels what it cannot: its place in the batch, and why."""

    batch_index: int
    reason: str


class Delays(NamedTuple):
    """What a topic's records may ask for, now. `floor_ms`: a record that is held is not due before.

    `why_not`: why this record cannot be cancelled; empty: it can.
    """

    now_ms: int
    delay_max_ms: int
    floor_ms: int
    why_not: Callable[[Position], str] = lambda _: "no delayed record waits in this partition"


class Split(NamedTuple):
    """`visible`: the producer's batch without the records of `held` and `cancels`, which are one at least, unless some
    are `refused`.
    """

    visible: bytearray
    held: Sequence[HeldRecord]
    refused: list[RefusedDue]
    cancels: Sequence[Cancel] = ()


def split(batch: memoryview, header: BatchHeader, delays: Delays, level: int | None = None) -> Split | None:
    """None: nothing is to be held or cancelled. The batch was checked record by record (broker/batch_validation).

    `level`: of its codec.

    Raises BatchTooLong.
    """
    body = opened_body(batch, header, OPENED)
    if COMMON_PREFIX not in body and CANCEL not in body:
        return None
    require_few_records(header, "with delay headers")
    found = split_delays(body, header.record_count, header.last_offset_delta, _terms(header, delays))
    if found is not None:
        return _split_of(found, header, level)
    require_few_headers(body, header)
    held: list[HeldRecord] = []
    cancels: list[Cancel] = []
    refused: list[RefusedDue] = []
    kept: list[bytes] = []
    newest_ms = NO_TIMESTAMP_MS
    has_append_time = header.attributes & LOG_APPEND_TIME
    places = record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS)
    for index, record in enumerate(places):
        own_ms = wrapped(header.base_timestamp_ms + record.timestamp_delta)
        timestamp_ms = header.max_timestamp_ms if has_append_time else own_ms
        try:
            headers = headers_of(body, record)
            target = cancelled_by(headers)
            due_ms = due_ms_of(headers, delays.now_ms, delays.delay_max_ms)
        except (DueRefused, CancelRefused) as error:
            refused.append(RefusedDue(index, str(error)))
            continue
        if target is not None:
            if why_not := delays.why_not(target):
                refused.append(RefusedDue(index, why_not))
            cancels.append(Cancel(target, record.offset_delta))
        elif due_ms is None or due_ms <= delays.now_ms:
            kept.append(body[record.begin : record.stop])
            newest_ms = max(newest_ms, timestamp_ms)
        else:
            _, start = varint(body, record.behind_timestamp, record.stop)
            due_ms = max(due_ms, delays.floor_ms)
            held.append(HeldRecord(due_ms, timestamp_ms, record.offset_delta, body[start : record.stop]))
    if refused:
        return Split(bytearray(), [], refused)
    if not held and not cancels:
        return None
    return Split(visible_batch(header, b"".join(kept), len(kept), newest_ms, level), held, [], cancels)


def _terms(header: BatchHeader, delays: Delays) -> DelayTerms:
    has_append_time = header.attributes & LOG_APPEND_TIME
    return DelayTerms(
        LEVELS_MS,
        delays.now_ms,
        delays.delay_max_ms,
        TIME_MS_MAX,
        delays.floor_ms,
        header.base_timestamp_ms,
        header.max_timestamp_ms if has_append_time else None,
    )


def _split_of(found: DelayedSplit, header: BatchHeader, level: int | None) -> Split | None:
    if not found.held_count:
        return None
    visible = visible_batch(header, found.kept, found.kept_count, found.newest_ms, level)
    return Split(visible, PackedHeld(found.entries, found.bodies), [])


def visible_batch(header: BatchHeader, kept: Buffer, count: int, newest_ms: int, level: int | None) -> bytearray:
    """The producer's batch with these `count` records alone, each whole. `newest_ms`: the latest of their times."""
    if not count:
        # No codec, and no time that a look-up or retention would take for that of a record.
        attributes = header.attributes & ~(COMPRESSION_MASK | LOG_APPEND_TIME)
        empty = header._replace(
            attributes=attributes,
            base_timestamp_ms=NO_TIMESTAMP_MS,
            max_timestamp_ms=NO_TIMESTAMP_MS,
            record_count=0,
        )
        return assemble_batch(empty, b"")
    codec = header.compression
    data = kept if codec is Compression.NONE else compress(codec, kept, level)
    return assemble_batch(header._replace(max_timestamp_ms=newest_ms, record_count=count), data)
