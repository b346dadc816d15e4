"""The records that a group with lanes sees of batches that were read. Pure.

Only a batch that may have a record for somebody else is opened. Runs of batches without a record become one empty batch,
the last, so that the reader's position moves on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from bmq.log.lanes.intervals import Interval, concerning, is_of_base, is_of_lane
from bmq.log.lanes.record_lane import NO_LANE, may_have_lane, read_lane_of
from bmq.protocol.compression import Buffer, decompress
from bmq.protocol.record_batch import HEADER_BYTES, BatchHeader, batches
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.records_twin import headers_of, record_places
from bmq.records.selected_records import with_records


class Lens(NamedTuple):
    """`lane`: the one that is read, NO_LANE for the base group. `intervals`: all that concern the batches."""

    lane: str
    header: bytes
    intervals: Sequence[Interval]

    def sees(self, lane: str, offset: int) -> bool:
        """Whether the group sees a record of this lane (NO_LANE: none) there."""
        if self.lane == NO_LANE:
            return is_of_base(self.intervals, lane, offset)
        return lane == self.lane and is_of_lane(self.intervals, lane, offset)


def attributes_of(whole: memoryview) -> int:
    """All attributes that any of these batches has. Raises CorruptRecords."""
    found = 0
    for _, header in batches(whole):
        found |= header.attributes
    return found


def seen_by(lens: Lens, whole: memoryview) -> list[Buffer]:
    """Whole batches as the group sees them. Raises BadCompressedData, Damage, CorruptRecords."""
    seen: list[Buffer] = []
    is_last_empty = False
    for position, header in batches(whole):
        batch = whole[position : position + header.size_bytes]
        found = _seen_batch(batch, header, lens)
        is_empty = found is not batch and BatchHeader.parse(found).record_count == 0
        if is_empty and is_last_empty:
            seen.pop()
        seen.append(found)
        is_last_empty = is_empty
    return seen


def _seen_batch(batch: memoryview, header: BatchHeader, lens: Lens) -> Buffer:
    """`batch` itself where all of it is seen."""
    if header.is_control:
        return batch
    near = lens._replace(intervals=concerning(lens.intervals, header.base_offset, header.last_offset))
    if not near.intervals:
        return batch if lens.lane == NO_LANE else with_records(header, b"", ())
    body = bytes(decompress(header.compression, batch[HEADER_BYTES:]))
    if not may_have_lane(body, lens.header):
        return batch if lens.lane == NO_LANE else with_records(header, b"", ())
    kept = []
    for record in record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS):
        lane = read_lane_of(headers_of(body, record), lens.header) if record.header_count else NO_LANE
        if near.sees(lane, header.base_offset + record.offset_delta):
            kept.append(slice(record.begin, record.stop))
    return batch if len(kept) == header.record_count else with_records(header, body, kept)
