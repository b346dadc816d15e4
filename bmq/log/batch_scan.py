"""Finds the record batches in a piece of a segment's file, many per call: their places and headers. Pure."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from bmq.log.origin import DamagedBatch, Origin
from bmq.log.padding import is_blank, is_padding, padding_end
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import HEADER_BYTES
from bmq.records import batch_layout as layout
from bmq.records.reading import scan_batches

_BASE_OFFSET: Final = Struct(">q")
NO_LIMIT: Final = 1 << 62
_BATCHES_MAX: Final = 4096
"""Most batches found by one call of the kernel."""


class Scan(NamedTuple):
    """Whole batches found in a buffer.

    `batches`: `batch_count` structures batch_layout.BATCH, with the batches' places in the buffer. `end`: the position behind
    the last batch and its padding. `missing_bytes`: how many more bytes the batch or padding at `end` needs, as far as known; 0
    if the buffer ends there or the scan stopped early.
    """

    batches: Buffer
    batch_count: int
    end: int
    missing_bytes: int


def scan(
    data: Buffer,
    origin: Origin,
    place: int,
    *,
    rows_max: int,
    bytes_max: int,
    batch_bytes_max: int,
    batches_max: int = NO_LIMIT,
) -> Scan:
    """The whole batches from `place` on, up to the one that reaches `rows_max`, `bytes_max` or `batches_max`; at least one.

    Skips padding between them (bmq.log.padding) and checks no checksums. Raises DamagedBatch for an impossible header,
    batches longer than `batch_bytes_max`, and offsets that do not ascend.
    """
    found = bytearray()
    start = place
    missing_bytes = rows = 0
    last_offset = layout.NO_OFFSET_BEFORE

    def has_enough() -> bool:
        count = len(found) // layout.BATCH.size
        return count > 0 and (rows >= rows_max or place - start >= bytes_max or count >= batches_max)

    while True:
        bytes_left = min(bytes_max - (place - start), len(data) - place)
        batches_left = batches_max - len(found) // layout.BATCH.size
        room = max(1, min(_BATCHES_MAX, batches_left, bytes_left // HEADER_BYTES + 1))
        part = scan_batches(
            data,
            place,
            rows_max=rows_max - rows,
            bytes_max=bytes_max - (place - start),
            batch_bytes_max=batch_bytes_max,
            last_offset=last_offset,
            batches_max=room,
        )
        found += part.batches
        rows += part.rows
        place, last_offset = part.place, part.last_offset
        if part.why == layout.BAD_BATCH_LENGTH:
            reason = f"a record batch has {part.size_bytes} bytes, {batch_bytes_max} are allowed"
            raise DamagedBatch(origin, place, None, reason)
        if part.why >= layout.BAD_HEADER:
            base_offset = _BASE_OFFSET.unpack_from(data, place)[0]
            raise DamagedBatch(origin, place, base_offset, layout.IMPOSSIBLE[part.why - layout.BAD_HEADER])
        if part.why == layout.BATCH_IS_CUT:
            missing_bytes = part.size_bytes - (len(data) - place)
            break
        if part.why == layout.SCANNED_ENOUGH and not has_enough():
            continue  # the call stopped because it had found as many batches as it may
        if part.why != layout.NO_LENGTH:
            break
        view = memoryview(data)
        end = padding_end(origin.position_bytes + place) - origin.position_bytes
        if not is_padding(view, place) or not is_blank(view[place:end]):
            raise DamagedBatch(origin, place, None, "neither a record batch nor padding")
        if end > len(data):
            missing_bytes = end - len(data)
            break
        place = end
        if has_enough():
            break
    return Scan(found, len(found) // layout.BATCH.size, place, missing_bytes)
