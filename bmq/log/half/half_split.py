"""Splits a producer's batch into half messages and decisions, which are announced, and visible records. Pure.

The visible batch has the offsets, producer and sequences of the whole one, and is empty if all records were taken out. A batch
without half-message headers costs one search of its bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from bmq.log.half.half_announcement import HalfRecord
from bmq.log.half.half_headers import COMMON_PREFIX, AskedDecision, HalfRefused, asked_by
from bmq.log.opened_batch import opened_body, require_few_headers, require_few_records
from bmq.log.timers.holding import OPENED, visible_batch
from bmq.protocol.record_batch import LOG_APPEND_TIME, NO_TIMESTAMP_MS, BatchHeader, assemble_batch
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.records_twin import headers_of, record_places, varint, wrapped

DELAY_PREFIX: Final = b"bmq-deliver-a"


class RefusedHalf(NamedTuple):
    """A record that is refused: its place in the batch, and the reason."""

    batch_index: int
    reason: str


class TakenDecision(NamedTuple):
    """A decision, and the place of its record in the batch."""

    asked: AskedDecision
    offset_delta: int


class HalfSplit(NamedTuple):
    """A producer's batch, split.

    `visible`: the batch without half messages and decisions; empty bytes if records are `refused`. `kept_indexes`: which records
    of the batch, counted from 0, stay visible.
    """

    visible: bytearray
    halves: list[HalfRecord]
    decisions: list[TakenDecision]
    refused: list[RefusedHalf]
    kept_indexes: list[int]


def split_half(
    batch: memoryview,
    header: BatchHeader,
    check: Callable[[AskedDecision], bool],
    *,
    has_delay: bool,
    level: int | None = None,
) -> HalfSplit | None:
    """Split a batch that has passed record-by-record checks (broker/batch_validation); None if no record has to be taken out.

    `check`: whether a decision has to be announced (False if it was made before); raises HalfRefused. `has_delay`: whether the
    topic has delayed records. `level`: the compression level of the batch's codec. Raises BatchTooLong, Damage.
    """
    body = opened_body(batch, header, OPENED)
    if COMMON_PREFIX not in body:
        return None
    require_few_records(header, "with headers of half messages")
    require_few_headers(body, header)
    found = HalfSplit(bytearray(), [], [], [], [])
    kept: list[bytes] = []
    newest_ms = NO_TIMESTAMP_MS
    has_append_time = header.attributes & LOG_APPEND_TIME
    places = record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS)
    is_touched = False
    for index, record in enumerate(places):
        own_ms = wrapped(header.base_timestamp_ms + record.timestamp_delta)
        timestamp_ms = header.max_timestamp_ms if has_append_time else own_ms
        headers = headers_of(body, record)
        try:
            asked = asked_by(headers)
            if isinstance(asked, AskedDecision):
                is_touched = True
                if check(asked):
                    found.decisions.append(TakenDecision(asked, record.offset_delta))
            elif asked is not None:
                if has_delay and any(name.startswith(DELAY_PREFIX) for name, _ in headers):
                    raise HalfRefused("a half message cannot also ask for a delay")
                is_touched = True
                _, start = varint(body, record.behind_timestamp, record.stop)
                half = HalfRecord(timestamp_ms, record.offset_delta, asked, body[start : record.stop])
                found.halves.append(half)
        except HalfRefused as error:
            found.refused.append(RefusedHalf(index, str(error)))
            continue
        if asked is None:
            kept.append(body[record.begin : record.stop])
            found.kept_indexes.append(index)
            newest_ms = max(newest_ms, timestamp_ms)
    if found.refused:
        return found
    if not is_touched:
        return None
    return found._replace(visible=visible_batch(header, b"".join(kept), len(kept), newest_ms, level))


def empty_batch(offset_count: int) -> bytearray:
    """A batch without records that takes `offset_count` offsets, for decisions that no producer sent."""
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=offset_count - 1,
        base_timestamp_ms=NO_TIMESTAMP_MS,
        max_timestamp_ms=NO_TIMESTAMP_MS,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=0,
    )
    return assemble_batch(header, b"")
