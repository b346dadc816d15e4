"""The records that a share fetch acquired for us, and acknowledgements as ranges of offsets (KIP-932). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bmq.gateway.held_records import HeldRecord
from bmq.protocol.batch_records import decode_records
from bmq.protocol.record_batch import batches, verify_crc

GAP, ACCEPT, RELEASE, REJECT = 0, 1, 2, 3
"""Kinds of acknowledgement. GAP: at this offset is no record."""


class Acquired(NamedTuple):
    """Records to deliver, and acquired offsets at which there is none."""

    records: Sequence[HeldRecord]
    gaps: Sequence[int]


class AckRange(NamedTuple):
    """Offsets that are acknowledged alike, both ends included."""

    first: int
    last: int
    kind: int


def acquired_records(
    topic: str, partition: int, data: bytes, ranges: Iterable[tuple[int, int, int]], bytes_max: int
) -> Acquired:
    """`data`: whole batches. `ranges`: first and last offset, and delivery count, of what was acquired.

    Raises CorruptRecords, BadCompressedData, UnknownCompression.
    """
    counts = {offset: count for first, last, count in ranges for offset in range(first, last + 1)}
    records = []
    for position, header in batches(data):
        if header.is_control or header.end_offset <= min(counts, default=header.end_offset):
            continue
        verify_crc(data, position, header)
        for record in decode_records(data, position, length_bytes_max=bytes_max):
            count = counts.pop(record.offset, None)
            if count is not None:
                records.append(
                    HeldRecord(
                        topic,
                        partition,
                        record.offset,
                        record.timestamp_ms,
                        record.key,
                        record.value,
                        tuple(record.headers),
                        count,
                    )
                )
    return Acquired(records, sorted(counts))


def as_ranges(kinds: Iterable[tuple[int, int]]) -> Sequence[AckRange]:
    """(offset, kind) in any order, each offset once, as the fewest ranges in order."""
    found: list[AckRange] = []
    for offset, kind in sorted(kinds):
        last = found[-1] if found else None
        if last is not None and last.last + 1 == offset and last.kind == kind:
            found[-1] = AckRange(last.first, offset, kind)
        else:
            found.append(AckRange(offset, offset, kind))
    return found
