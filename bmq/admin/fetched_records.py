"""Records out of the batches of a Fetch, for people who look at a topic: chosen by simple filters, and bounded. Pure.

Control batches, and batches of aborted transactions where only committed records are read, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from bmq.protocol.batch_records import Record, iterate_records
from bmq.proxy.share.read_batches import ReadBatch, batches_of, unseen_ranges

SCANNED_MAX: Final = 50_000
"""Records looked at in one call."""
HEADER_BYTES: Final = 64
"""Of one header besides its name and value: what is written around them."""


class RecordFilter(NamedTuple):
    """A record passes if each part that is not None is found in it, byte by byte.

    `header_value` None: a header of this name is enough.
    """

    key: bytes | None = None
    value: bytes | None = None
    header_name: str | None = None
    header_value: bytes | None = None

    def passes(self, record: Record) -> bool:
        """Whether the record is wanted."""
        if self.key is not None and self.key not in (record.key or b""):
            return False
        if self.value is not None and self.value not in (record.value or b""):
            return False
        return self.header_name is None or any(
            name == self.header_name and (self.header_value is None or self.header_value in (value or b""))
            for name, value in record.headers
        )


ALL: Final = RecordFilter()


class Room(NamedTuple):
    """What may still be taken: so many records, and so many bytes of them."""

    records: int
    size_bytes: int


class Taken(NamedTuple):
    """`records`: in the order of their offsets. `next_offset`: where to go on. `scanned`: how many records were looked at."""

    records: list[Record]
    next_offset: int
    scanned: int


def take(
    data: bytes,
    aborted: Sequence[tuple[int, int]],
    from_offset: int,
    wanted: RecordFilter,
    room: Room,
    scanned_max: int = SCANNED_MAX,
) -> Taken:
    """Records from `from_offset` on in whole batches back to back, while there is room; one that fits nowhere is taken alone.

    `aborted`: (producer id, first offset) of aborted transactions, by first offset; () for readers of uncommitted records.
    Raises CorruptRecords, BadCompressedData, UnknownCompression.
    """
    views = [memoryview(data)]
    batches, _ = batches_of(views)
    found: list[Record] = []
    next_offset, scanned, left_bytes = from_offset, 0, room.size_bytes
    for batch in _seen(batches, views, aborted, from_offset):
        for record in iterate_records(data, batch.position):
            if record.offset < from_offset:
                continue
            if len(found) >= room.records or scanned >= scanned_max or (found and left_bytes <= 0):
                return Taken(found, record.offset, scanned)
            scanned += 1
            next_offset = record.offset + 1
            if wanted.passes(record):
                found.append(record)
                left_bytes -= size_of(record)
        next_offset = max(next_offset, batch.last_offset + 1)
    if batches:
        next_offset = max(next_offset, batches[-1].last_offset + 1)
    return Taken(found, next_offset, scanned)


def size_of(record: Record) -> int:
    """Bytes of its key, value and headers, and what each header costs besides."""
    headers = sum(HEADER_BYTES + len(name) + len(value or b"") for name, value in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def _seen(
    batches: Sequence[ReadBatch],
    views: Sequence[memoryview],
    aborted: Sequence[tuple[int, int]],
    from_offset: int,
) -> Iterator[ReadBatch]:
    """Batches with records for readers."""
    unseen = unseen_ranges(batches, views, aborted, from_offset)
    number = 0
    for batch in batches:
        while number < len(unseen) and unseen[number].last < batch.first_offset:
            number += 1
        is_unseen = number < len(unseen) and unseen[number].first <= batch.first_offset
        if not batch.is_control and not is_unseen:
            yield batch
