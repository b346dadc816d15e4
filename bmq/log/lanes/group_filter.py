"""Filters batches that were read to the records that one group of a set of lanes sees. Pure.

A batch is opened only if it may have records for another group. For batches without a record, one after the other, there is one
batch with the last one's offsets and no record (records/skipped_offsets), so that the reader's position moves on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from bmq.log.lanes.intervals import Interval, concerning, is_of_base, is_of_lane
from bmq.log.lanes.record_lane import NO_LANE, may_have_lane, read_lane_of
from bmq.protocol.compression import Buffer, decompress
from bmq.protocol.record_batch import HEADER_BYTES, BatchHeader, batches
from bmq.records.batch_layout import WANTS_HEADERS
from bmq.records.records_twin import headers_of, record_places
from bmq.records.selected_records import with_records
from bmq.records.skipped_offsets import skipped_offsets


class GroupFilter(NamedTuple):
    """The terms that decide which records a group sees.

    `lane`: the group's lane, NO_LANE for the base group. `header`: name of the lane header. `intervals`: those that overlap the
    batches.
    """

    lane: str
    header: bytes
    intervals: Sequence[Interval]

    def sees(self, lane: str, offset: int) -> bool:
        """Whether the group sees a record of this lane (NO_LANE: of none) at `offset`."""
        if self.lane == NO_LANE:
            return is_of_base(self.intervals, lane, offset)
        return lane == self.lane and is_of_lane(self.intervals, lane, offset)


class FilterResult(NamedTuple):
    """Batches as one group sees them. `parts`: whole batches.

    `opened`: for each batch that had to be opened, by its place: the batch that replaces it, b"" if the group sees none of its
    records, None if it sees all.
    """

    parts: list[Buffer]
    opened: dict[int, Buffer | None]


def narrowed_to_batch(group_filter: GroupFilter, header: BatchHeader) -> GroupFilter | None:
    """The filter with its intervals cut to one batch; None if the batch need not be opened.

    Filters that decide the same about the batch become equal.
    """
    if header.is_control:
        return None
    end = header.end_offset
    some = concerning(group_filter.intervals, header.base_offset, header.last_offset)
    cut = tuple(
        Interval(one.lane, max(one.start, header.base_offset), min(one.end, end), min(one.kept, end)) for one in some
    )
    return group_filter._replace(intervals=cut) if cut else None


def filter_batches(
    group_filter: GroupFilter, whole: memoryview, known: Mapping[int, Buffer | None] = MappingProxyType({})
) -> FilterResult:
    """The batches as the group sees them. `known`: `opened` of an earlier call for the same batches.

    Raises BadCompressedData, Damage, CorruptRecords.
    """
    found = FilterResult([], {})
    is_last_empty = False
    for place, header in batches(whole):
        batch = whole[place : place + header.size_bytes]
        decides = narrowed_to_batch(group_filter, header)
        one: Buffer | None
        if decides is None:
            one = None if header.is_control or group_filter.lane == NO_LANE else b""
        elif place in known:
            one = known[place]
        else:
            one = found.opened[place] = _opened(batch, header, decides)
        is_empty = one is not None and not len(one)
        if is_empty and is_last_empty:
            found.parts.pop()
        if is_empty:
            one = skipped_offsets(header.base_offset, header.last_offset_delta, header.leader_epoch)
        found.parts.append(batch if one is None else one)
        is_last_empty = is_empty
    return found


def _opened(batch: memoryview, header: BatchHeader, group_filter: GroupFilter) -> Buffer | None:
    body = bytes(decompress(header.compression, batch[HEADER_BYTES:]))
    if not may_have_lane(body, group_filter.header):
        return None if group_filter.lane == NO_LANE else b""
    kept = []
    for record in record_places(body, 0, len(body), header.record_count, header.last_offset_delta, WANTS_HEADERS):
        lane = read_lane_of(headers_of(body, record), group_filter.header) if record.header_count else NO_LANE
        if group_filter.sees(lane, header.base_offset + record.offset_delta):
            kept.append(slice(record.begin, record.stop))
    if len(kept) == header.record_count:
        return None
    return with_records(header, body, kept) if kept else b""
