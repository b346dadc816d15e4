"""Splits a producer's batch into delayed records, which are held, and visible ones. Pure.

The visible batch has the offsets, producer and sequences of the whole one. If all records are delayed it is empty, like a batch
that Kafka's cleaner leaves. A batch without delay headers costs one search of its bytes.
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
    """A record with a delay or a cancellation that is refused: its place in the batch, and the reason."""

    batch_index: int
    reason: str


class Delays(NamedTuple):
    """The limits for a topic's delays at this moment.

    `floor_ms`: the earliest due time of a held record. `why_not`: says why a record cannot be cancelled; empty if it can.
    """

    now_ms: int
    delay_max_ms: int
    floor_ms: int
    why_not: Callable[[Position], str] = lambda _: "no delayed record waits in this partition"


class Split(NamedTuple):
    """A producer's batch, split.

    `visible`: the batch without the records of `held` and `cancels`; together these have at least one. If records are `refused`,
    the other fields are empty.
    """

    visible: bytearray
    held: Sequence[HeldRecord]
    refused: list[RefusedDue]
    cancels: Sequence[Cancel] = ()


def split(batch: memoryview, header: BatchHeader, delays: Delays, level: int | None = None) -> Split | None:
    """Split a batch that has passed record-by-record checks (broker/batch_validation); None if no record is held or cancels.

    `level`: the compression level of the visible batch's codec. Raises BatchTooLong, Damage.
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
    """The producer's batch with only the `count` records in `kept`. `newest_ms`: the greatest of their timestamps."""
    if not count:
        # No codec; and no timestamp, which look-ups and retention would take for a record's.
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
