"""The record batches of one read for a share group: their bounds, the offsets that are archived unseen, the part to send. Pure.

Only headers are read, and the one record of a control batch if aborted records have to be found. Views are not copied. Source:
Kafka's SharePartition (maybeFilterAbortedTransactionalAcquiredRecords), ShareFetchUtils.maybeSliceFetchRecords.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from bmq.protocol.control_batch import ControlType, parse_end_transaction_marker
from bmq.protocol.record_batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES, TRANSACTIONAL, CorruptRecords
from bmq.protocol.share_state_messages import AcquiredRange, OffsetRange

_HEAD: Final = Struct(">qi9xhi16xq")
"""Base offset, length, attributes, last offset delta, producer id."""
_HEAD_BYTES: Final = 51
_CONTROL: Final = 1 << 5


class ReadBatch(NamedTuple):
    """A batch of the read. `position`: its place in the read's bytes, as if all views were joined."""

    first_offset: int
    last_offset: int
    position: int
    size_bytes: int
    attributes: int
    producer_id: int

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & _CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def batches_of(
    views: Sequence[memoryview], from_offset: int = 0, records_max: int = 2**31 - 1, *, is_read_committed: bool = False
) -> tuple[list[ReadBatch], int]:
    """(whole batches up to `records_max` records from `from_offset` on, how many records are missing to that, 0 or less).

    A batch may continue from view to view. Records that may turn out to be unseen do not count: those of control batches and, for
    readers of committed records, of transactions. Raises CorruptRecords for an impossible length.
    """
    found: list[ReadBatch] = []
    uncounted = _CONTROL | TRANSACTIONAL if is_read_committed else _CONTROL
    total_bytes = sum(map(len, views))
    position = number = begin = 0  # `begin`: where the view of this number begins
    while position + HEADER_BYTES <= total_bytes:
        while position - begin >= len(views[number]):
            begin += len(views[number])
            number += 1
        view, at = views[number], position - begin
        if at + _HEAD_BYTES <= len(view):
            base_offset, length, attributes, last_delta, producer_id = _HEAD.unpack_from(view, at)
        else:
            head = joined(cut(views[number:], at, at + _HEAD_BYTES))
            base_offset, length, attributes, last_delta, producer_id = _HEAD.unpack_from(head)
        size_bytes = length + LENGTH_OVERHEAD_BYTES
        if size_bytes < HEADER_BYTES or last_delta < 0 or position + size_bytes > total_bytes:
            raise CorruptRecords(f"a batch of {size_bytes} bytes at offset {base_offset}")
        found.append(ReadBatch(base_offset, base_offset + last_delta, position, size_bytes, attributes, producer_id))
        position += size_bytes
        if not attributes & uncounted:
            records_max -= base_offset + last_delta + 1 - max(base_offset, from_offset)
            if records_max <= 0:
                break
    return found, records_max


def cut(views: Sequence[memoryview], begin: int, end: int) -> list[memoryview]:
    """The bytes from `begin` to `end`, as if the views were joined."""
    found: list[memoryview] = []
    position = 0
    for view in views:
        if position >= end:
            break
        length = len(view)
        if max(begin, position) < min(end, position + length):
            is_whole = begin <= position and position + length <= end
            found.append(view if is_whole else view[max(0, begin - position) : end - position])
        position += length
    return found


def joined(views: Sequence[memoryview]) -> bytes | memoryview:
    """The bytes in one piece; copied only if there are several."""
    return views[0] if len(views) == 1 else b"".join(views)


def offset_ranges(batches: Sequence[ReadBatch]) -> list[OffsetRange]:
    return [OffsetRange(first=batch.first_offset, last=batch.last_offset) for batch in batches]


def unseen_ranges(
    batches: Sequence[ReadBatch],
    views: Sequence[memoryview],
    aborted: Sequence[tuple[int, int]],
    from_offset: int,
) -> list[OffsetRange]:
    """Offsets that no consumer has to see, in order: control batches, batches of aborted transactions, missing offsets.

    `aborted`: (producer id, first offset) of the aborted transactions that overlap the batches, by first offset; () for readers
    of uncommitted records. `from_offset`: where the read began; offsets that are missing from there on were compacted away.
    Raises CorruptRecords.
    """
    unseen: list[OffsetRange] = []
    open_producers: set[int] = set()
    begun = 0
    next_offset = from_offset
    for batch in batches:
        if batch.first_offset > next_offset:
            _add(unseen, next_offset, batch.first_offset - 1)
        next_offset = max(next_offset, batch.last_offset + 1)
        while begun < len(aborted) and aborted[begun][1] <= batch.last_offset:
            open_producers.add(aborted[begun][0])
            begun += 1
        if batch.is_control:
            _add(unseen, batch.first_offset, batch.last_offset)
            if batch.producer_id in open_producers and _is_abort(batch, views):
                open_producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_producers:
            _add(unseen, batch.first_offset, batch.last_offset)
    return unseen


def _is_abort(batch: ReadBatch, views: Sequence[memoryview]) -> bool:
    marker = parse_end_transaction_marker(joined(cut(views, batch.position, batch.position + batch.size_bytes)))
    return marker is not None and marker.control_type == ControlType.ABORT


def _add(ranges: list[OffsetRange], first: int, last: int) -> None:
    if ranges and ranges[-1].last == first - 1:
        ranges[-1].last = last
    else:
        ranges.append(OffsetRange(first=first, last=last))


def records_around(
    batches: Sequence[ReadBatch], views: Sequence[memoryview], acquired: Sequence[AcquiredRange]
) -> list[memoryview]:
    """The whole batches that have acquired records. `acquired`: in order of offset."""
    parts: list[tuple[int, int]] = []
    place = 0
    for batch in batches:
        while place < len(acquired) and acquired[place].last < batch.first_offset:
            place += 1
        if place == len(acquired):
            break
        if acquired[place].first > batch.last_offset:
            continue
        if parts and parts[-1][1] == batch.position:
            parts[-1] = parts[-1][0], batch.position + batch.size_bytes
        else:
            parts.append((batch.position, batch.position + batch.size_bytes))
    if parts == [(0, sum(map(len, views)))]:
        return list(views)
    return [view for begin, end in parts for view in cut(views, begin, end)]
