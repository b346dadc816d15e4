"""The headers of many record batches at once, as columns of a numpy array. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from bmq.log import batch_scan
from bmq.log.origin import Origin
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import COMPRESSION_MASK, TRANSACTIONAL
from bmq.records.batch_layout import BATCH

HEADER: Final = np.dtype(
    [
        ("base_offset", "i8"),
        ("length", "i4"),
        ("leader_epoch", "i4"),
        ("magic", "i4"),
        ("crc", "u4"),
        ("attributes", "i4"),
        ("last_offset_delta", "i4"),
        ("base_timestamp_ms", "i8"),
        ("max_timestamp_ms", "i8"),
        ("producer_id", "i8"),
        ("producer_epoch", "i4"),
        ("base_sequence", "i4"),
        ("record_count", "i4"),
        ("unused", "i4"),
        ("place", "i8"),
    ]
)
"""A batch_layout.BATCH as numpy has it."""
assert HEADER.itemsize == BATCH.size

CODEC_MASK: Final = COMPRESSION_MASK
CONTROL: Final = 1 << 5

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


def scan(data: Buffer, origin: Origin, place: int, *, rows_max: int, bytes_max: int, batch_bytes_max: int) -> Scan:
    """As bmq.log.batch_scan.scan."""
    found = batch_scan.scan(
        data, origin, place, rows_max=rows_max, bytes_max=bytes_max, batch_bytes_max=batch_bytes_max
    )
    headers = np.frombuffer(found.batches, HEADER)
    return Scan(headers["place"], headers, found.end, found.missing_bytes)
