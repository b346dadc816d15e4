"""The lanes of a batch that is being produced: records with a bad one are named, records without one get the producer's. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from bmq.log.lanes.names import LaneRefused
from bmq.log.lanes.record_lane import NO_LANE, lane_of, may_have_lane
from bmq.protocol.compression import BadCompressedData, compress, decompress
from bmq.protocol.record_batch import HEADER_BYTES, BatchHeader, assemble_batch
from bmq.records.batch_layout import WANTS_HEADERS, WANTS_VALUE
from bmq.records.records_twin import RecordPlaces, append_varint, headers_of, record_places, varint

OPENED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of the decompressed records of a batch: they are read on the event loop."""
RECORDS_MAX: Final = 10_000
"""Records of a batch that are looked at one by one: each takes some microseconds of the event loop."""
HEADERS_MAX: Final = 20_000
"""Headers of these records together: each takes a microsecond or two."""


class TooManyRecords(ValueError):
    """The batch is too long to look at its lanes. Its producer may send it in parts."""


class RefusedLane(NamedTuple):
    """A record whose lane may not be: its place in the batch, and why."""

    batch_index: int
    reason: str


def refused_lanes(batch: memoryview, header: BatchHeader, name: bytes) -> list[RefusedLane]:
    """The records that may not be produced. `name`: of the lane header. Costs one search of the batch's bytes without that name in them.

    Raises TooManyRecords, Damage, UnknownCompression.
    """
    body = _opened(batch, header)
    if not may_have_lane(body, name):
        return []
    _require_few(body, header)
    refused = []
    for index, record in enumerate(_places(body, header)):
        try:
            lane_of(headers_of(body, record), name)
        except LaneRefused as error:
            refused.append(RefusedLane(index, str(error)))
    return refused


def stamped(batch: memoryview, header: BatchHeader, name: bytes, lane: str) -> bytearray | None:
    """The batch with the lane in a further header of each record that has none; None: each has one, or a bad one.

    Offsets, times, producer and sequences stay. Raises TooManyRecords, Damage, UnknownCompression.
    """
    body = _opened(batch, header)
    _require_few(body, header)
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


def _opened(batch: memoryview, header: BatchHeader) -> bytes:
    try:
        return bytes(decompress(header.compression, batch[HEADER_BYTES : header.size_bytes], OPENED_BYTES_MAX))
    except BadCompressedData as error:
        raise TooManyRecords(
            f"a compressed batch whose lanes are looked at may have {OPENED_BYTES_MAX} bytes of records: {error}"
        ) from error


def _require_few(body: bytes, header: BatchHeader) -> None:
    if header.record_count > RECORDS_MAX:
        raise TooManyRecords(
            f"a batch of {header.record_count} records with lanes, {RECORDS_MAX} are allowed: send smaller ones"
        )
    places = record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_VALUE)
    count = sum(max(varint(body, one.value + max(one.value_bytes, 0), one.stop)[0], 0) for one in places)
    if count > HEADERS_MAX:
        raise TooManyRecords(
            f"a batch whose records have {count} headers together, {HEADERS_MAX} are allowed: send smaller ones"
        )


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
