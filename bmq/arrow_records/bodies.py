"""Opens the bodies of batches into one array, and walks through their records. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from bmq.arrow_records import kernels
from bmq.arrow_records.batch_headers import CODEC_MASK, LOG_APPEND_TIME, RECORD_BYTES_MIN, Headers, Mask, has
from bmq.arrow_records.origin import DamagedBatch, Origin
from bmq.protocol.compression import BadCompressedData, Compression, decompress_into
from bmq.protocol.record_batch import HEADER_BYTES, LENGTH_OVERHEAD_BYTES

_CRC_BEGINS: Final = 21
Int64s = npt.NDArray[np.int64]


class Scratch:
    """Memory for decompressed batches, reused for the next table: fresh memory costs about as much as LZ4.

    For one thread at a time. It stays as large as the largest table was.
    """

    __slots__ = ("_array",)

    def __init__(self) -> None:
        self._array: npt.NDArray[np.uint8] = np.empty(0, np.uint8)

    def of(self, size_bytes: int) -> npt.NDArray[np.uint8]:
        """An array of at least this size. Pages that are never touched use no memory."""
        if len(self._array) < size_bytes:
            self._array = np.empty(size_bytes, np.uint8)
        return self._array


@dataclass(frozen=True, slots=True)
class Bodies:
    """The first batches of a scan with their records decompressed.

    Body i is at [starts[i], ends[i]) of `data`; a batch that did not have to be opened has none there. `data` is the
    buffer itself when nothing was compressed, else part of a Scratch.
    """

    data: kernels.Bytes
    places: Int64s
    headers: Headers
    is_opened: Mask
    starts: Int64s
    ends: Int64s


@dataclass(frozen=True, slots=True)
class Rows:
    """The result of a walk, one entry per record. Views as in kernels.py; in the null arrays 1 means null."""

    offsets: Int64s
    timestamps: Int64s
    key_views: npt.NDArray[np.int32]
    key_nulls: npt.NDArray[np.uint8]
    value_views: npt.NDArray[np.int32]
    value_nulls: npt.NDArray[np.uint8]
    header_places: Int64s
    header_offsets: npt.NDArray[np.int32]


def open_bodies(
    data: kernels.Bytes,
    origin: Origin,
    places: Int64s,
    headers: Headers,
    wanted: int,
    *,
    bytes_max: int,
    batch_bytes_max: int,
    is_verified: bool,
    scratch: Scratch,
) -> Bodies:
    """Verify checksums and decompress, up to the batch with which the bodies reach `bytes_max`; at least one.

    A batch is not opened if its header has all that is `wanted` (kernels.WANTS_…): a record for each of its offsets,
    and their time if that is the log's. Raises DamagedBatch: a wrong checksum, a body that does not decompress or is
    longer than `batch_bytes_max`, more records than it has room for.
    """
    attributes = headers["attributes"]
    codecs: list[int] = (attributes & CODEC_MASK).tolist()
    counts = headers["record_count"].astype(np.int64)
    is_dense = counts == headers["last_offset_delta"].astype(np.int64) + 1
    is_shut = is_dense & (wanted <= kernels.WANTS_TIMESTAMP)
    if wanted & kernels.WANTS_TIMESTAMP:
        is_shut &= has(headers, LOG_APPEND_TIME)
    is_opened = ~is_shut
    starts = places + HEADER_BYTES
    ends = places + headers["length"] + LENGTH_OVERHEAD_BYTES
    is_compressed = bool(((attributes & CODEC_MASK) != 0)[is_opened].any())
    # Leave room for the last batch, however long it turns out to be.
    arena = scratch.of(bytes_max + batch_bytes_max if is_compressed else 0)
    target = arena.data
    view = memoryview(data)
    used_bytes = number = 0
    fields = zip(
        starts.tolist(),
        ends.tolist(),
        codecs,
        counts.tolist(),
        is_opened.tolist(),
        headers["crc"].tolist(),
        strict=True,
    )
    for number, (start, end, codec, count, opens, crc) in enumerate(fields):
        try:
            if not is_verified and (found := crc32c(view[start - HEADER_BYTES + _CRC_BEGINS : end])) != crc:
                raise BadCompressedData(f"record batch checksum {crc:#010x} does not match its bytes ({found:#010x})")
            body_bytes = end - start
            if not opens:
                # An unopened batch may be compressed to almost nothing, but holds no more records than the longest
                # body.
                body_bytes = batch_bytes_max if codec else body_bytes
            elif is_compressed:
                room = target[used_bytes : used_bytes + batch_bytes_max]
                body_bytes = decompress_into(Compression(codec), view[start:end], room)
                starts[number], ends[number] = used_bytes, used_bytes + body_bytes
            if count * RECORD_BYTES_MIN > body_bytes:
                raise BadCompressedData(f"{count} records cannot be in {body_bytes} bytes")
        except BadCompressedData as error:
            place = int(places[number])
            raise DamagedBatch(origin, place, int(headers["base_offset"][number]), str(error)) from error
        used_bytes += body_bytes if opens else 0
        if used_bytes >= bytes_max:
            break
    taken = slice(0, number + 1 if len(places) else 0)
    opened = kernels.read_only(arena[:used_bytes]) if is_compressed else data
    return Bodies(opened, places[taken], headers[taken], is_opened[taken], starts[taken], ends[taken])


def walk(bodies: Bodies, origin: Origin, wanted: int) -> Rows:
    """The records of all bodies, as far as `wanted` (kernels.WANTS_…) says; offsets always. Raises DamagedBatch."""
    headers = bodies.headers
    counts = headers["record_count"].astype(np.int64)
    base_offsets = headers["base_offset"].astype(np.int64)
    first_rows = np.cumsum(counts) - counts
    count = int(counts.sum())
    has_append_time = has(headers, LOG_APPEND_TIME)
    append_times = headers["max_timestamp_ms"].astype(np.int64)
    opened = bodies.is_opened
    offsets = np.empty(count, np.int64)
    timestamps = np.empty(count if wanted & kernels.WANTS_TIMESTAMP else 0, np.int64)
    if not opened.all():
        offsets = np.repeat(base_offsets - first_rows, counts) + np.arange(count)
        timestamps = np.repeat(append_times, counts) if len(timestamps) else timestamps
    keys = count if wanted & kernels.WANTS_KEY else 0
    values = count if wanted & kernels.WANTS_VALUE else 0
    with_headers = count if wanted & kernels.WANTS_HEADERS else 0
    rows = Rows(
        offsets=offsets,
        timestamps=timestamps,
        key_views=np.empty((keys, 4), np.int32),
        key_nulls=np.empty(keys, np.uint8),
        value_views=np.empty((values, 4), np.int32),
        value_nulls=np.empty(values, np.uint8),
        header_places=np.empty(with_headers, np.int64),
        header_offsets=np.zeros(with_headers + 1, np.int32),
    )
    numbers = np.flatnonzero(opened)
    status, batch = kernels.walk(
        bodies.data,
        wanted,
        bodies.starts[numbers],
        bodies.ends[numbers],
        first_rows[numbers],
        counts[numbers],
        base_offsets[numbers],
        headers["last_offset_delta"].astype(np.int64)[numbers],
        headers["base_timestamp_ms"].astype(np.int64)[numbers],
        append_times[numbers],
        has_append_time[numbers].view(np.uint8),
        rows.offsets,
        rows.timestamps,
        rows.key_views,
        rows.key_nulls,
        rows.value_views,
        rows.value_nulls,
        rows.header_places,
        rows.header_offsets,
    )
    if status:
        number = int(numbers[batch])
        raise DamagedBatch(origin, int(bodies.places[number]), int(base_offsets[number]), kernels.REASONS[-status])
    return rows
