"""The headers of many record batches at once, as columns of a numpy array. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bmq.arrow_records import kernels
from bmq.arrow_records.origin import DamagedBatch, Origin
from bmq.log.padding import is_blank, is_padding, padding_end
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import HEADER_BYTES, MAGIC_2, TRANSACTIONAL

HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""A batch header's layout in the bytes. The fields of bmq.protocol.record_batch.BatchHeader."""

CODEC_MASK: Final = 0b111
LOG_APPEND_TIME: Final = 1 << 3
CONTROL: Final = 1 << 5
RECORD_BYTES_MIN: Final = 7  # length, attributes, two deltas, two lengths and the number of headers, a byte each

_POSITIONS_MAX: Final = 65_536
_OFFSET_MAX: Final = (1 << 63) - (1 << 32)

Headers = npt.NDArray[Any]
"""One element of type HEADER per batch."""
Mask = npt.NDArray[np.bool_]
BatchFilter = Callable[[Headers], Mask]
"""Decides for each batch, by its header, whether its records are left out."""


class Scan(NamedTuple):
    """Whole batches found in a buffer: their positions in it, and their headers.

    `end`: the position behind the last one, and behind padding there. `missing_bytes`: how many more bytes the batch or
    padding at `end` needs, as far as known; 0 if the buffer ends there or the scan stopped early.
    """

    places: npt.NDArray[np.int64]
    headers: Headers
    end: int
    missing_bytes: int


def has(headers: Headers, attribute: int) -> Mask:
    """Which batches have this bit of the attributes set."""
    found: Mask = (headers["attributes"] & attribute) != 0
    return found


def markers(headers: Headers) -> Mask:
    """A BatchFilter that leaves out control batches."""
    return has(headers, CONTROL)


def transactional(headers: Headers) -> Mask:
    """Which batches belong to transactions, including markers."""
    return has(headers, TRANSACTIONAL)


def scan(
    data: kernels.Bytes, origin: Origin, place: int, *, rows_max: int, bytes_max: int, batch_bytes_max: int
) -> Scan:
    """The whole batches from `place` on, up to the one that reaches `rows_max` or `bytes_max`; at least one.

    Skips padding between them (bmq.log.padding) and checks no checksums. Raises DamagedBatch for an impossible header,
    batches longer than `batch_bytes_max`, and offsets that do not ascend.
    """
    found: list[npt.NDArray[np.int64]] = []
    start = place
    missing_bytes = count = rows = 0
    while True:
        room = min(_POSITIONS_MAX, (len(data) - place) // HEADER_BYTES + 1)
        positions = np.empty(room, np.int64)
        number, place, why, size, more_rows = kernels.scan(
            data, place, rows_max - rows, bytes_max - (place - start), batch_bytes_max, positions
        )
        found.append(positions[:number])
        count += number
        rows += more_rows
        if why == kernels.BAD_BATCH_LENGTH:
            raise DamagedBatch(origin, place, None, f"a record batch of {size} bytes, {batch_bytes_max} are allowed")
        if why == kernels.BATCH_IS_CUT:
            missing_bytes = size - (len(data) - place)
            break
        has_enough = rows >= rows_max or place - start >= bytes_max
        if why == kernels.SCANNED_ENOUGH and number == room and not has_enough:
            continue  # only the room for positions was used up
        if why != kernels.NO_LENGTH:
            break
        view = memoryview(data)
        position = origin.position_bytes + place
        end = padding_end(position) - origin.position_bytes
        if not is_padding(view, place) or not is_blank(view[place:end]):
            raise DamagedBatch(origin, place, None, "neither a record batch nor padding")
        if end > len(data):
            missing_bytes = end - len(data)
            break
        place = end
        if count and (rows >= rows_max or place - start >= bytes_max):
            break
    places = np.concatenate(found) if len(found) > 1 else found[0]
    headers = data[places[:, None] + np.arange(HEADER_BYTES)].view(HEADER)[:, 0]
    _refuse_impossible(headers, places, origin)
    return Scan(places, headers, place, missing_bytes)


def _refuse_impossible(headers: Headers, places: npt.NDArray[np.int64], origin: Origin) -> None:
    base_offsets = headers["base_offset"].astype(np.int64)
    last_offsets = base_offsets + headers["last_offset_delta"]
    goes_back = np.zeros(len(headers), np.bool_)
    goes_back[1:] = base_offsets[1:] <= last_offsets[:-1]
    checks = (
        (headers["magic"] != MAGIC_2, "the message format is not 2"),
        ((base_offsets < 0) | (base_offsets > _OFFSET_MAX), "a record batch with an impossible offset"),
        (headers["last_offset_delta"] < 0, "a record batch that ends in front of its first offset"),
        (headers["record_count"] < 0, "a record batch with less than no records"),
        (headers["record_count"] > headers["last_offset_delta"].astype(np.int64) + 1, "more records than offsets"),
        ((headers["attributes"] & CODEC_MASK) > Compression.ZSTD, "a compression codec that does not exist"),
        (goes_back, "a record batch that begins in front of the end of the one before it"),
    )
    first = len(headers)
    for wrong, words in checks:
        if wrong.any() and (place := int(wrong.argmax())) < first:
            first, reason = place, words
    if first < len(headers):
        raise DamagedBatch(origin, int(places[first]), int(base_offsets[first]), reason)
