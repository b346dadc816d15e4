"""Lanes of produced batches: finds records whose lane is not valid, and gives records without a lane the producer's. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from bmq.log.lanes.names import LaneRefused
from bmq.log.lanes.record_lane import NO_LANE, lane_of, may_have_lane
from bmq.log.opened_batch import opened_body, require_few_headers, require_few_records
from bmq.protocol.compression import compress
from bmq.protocol.record_batch import BatchHeader, assemble_batch
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.records_twin import RecordPlaces, append_varint, headers_of, record_places, varint

_OPENED: Final = "whose lanes are looked at"


class RefusedLane(NamedTuple):
    """A record whose lane is not valid: its place in the batch, and the reason."""

    batch_index: int
    reason: str


def refused_lanes(batch: memoryview, header: BatchHeader, name: bytes) -> list[RefusedLane]:
    """The records whose lane is not valid. `name`: of the lane header. A batch without that name costs one search of its bytes.

    Raises BatchTooLong, Damage, UnknownCompression.
    """
    body = opened_body(batch, header, _OPENED)
    if not may_have_lane(body, name):
        return []
    require_few_records(header, "with lanes")
    require_few_headers(body, header)
    refused = []
    for index, record in enumerate(_places(body, header)):
        try:
            lane_of(headers_of(body, record), name)
        except LaneRefused as error:
            refused.append(RefusedLane(index, str(error)))
    return refused


def stamped(batch: memoryview, header: BatchHeader, name: bytes, lane: str) -> bytearray | None:
    """The batch, with the lane added as a header to each record that has none; None if every record has one, valid or not.

    Offsets, timestamps, producer and sequences stay. `name`: of the lane header. Raises BatchTooLong, Damage, UnknownCompression.
    """
    body = opened_body(batch, header, _OPENED)
    require_few_records(header, "with lanes")
    require_few_headers(body, header)
    has_lanes = may_have_lane(body, name)
    stamp = bytearray()
    for text in (name, lane.encode()):
        append_varint(stamp, len(text))
        stamp += text
    data = bytearray()
    is_changed = False
    for record in _places(body, header):
        if has_lanes and _has_lane(body, record, name):
            data += body[record.begin : record.stop]
        else:
            _append_with_header(data, body, record, stamp)
            is_changed = True
    return assemble_batch(header, compress(header.compression, bytes(data))) if is_changed else None


def _places(body: bytes, header: BatchHeader) -> list[RecordPlaces]:
    return list(record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS))


def _has_lane(body: bytes, record: RecordPlaces, name: bytes) -> bool:
    try:
        return lane_of(headers_of(body, record), name) != NO_LANE
    except LaneRefused:
        return True


def _append_with_header(data: bytearray, body: bytes, record: RecordPlaces, stamp: bytes | bytearray) -> None:
    _, behind_length = varint(body, record.begin, record.stop)
    _, first_header = varint(body, record.headers, record.stop)
    count = bytearray()
    append_varint(count, record.header_count + 1)
    fields, headers = body[behind_length : record.headers], body[first_header : record.stop]
    append_varint(data, len(fields) + len(count) + len(headers) + len(stamp))
    data += fields + count + headers + stamp
