"""Opens the bodies of batches into one array, and walks through their records into columns. Pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bmq.arrow_records.batch_headers import Headers
from bmq.dataclass import dataclass
from bmq.log import batch_bodies
from bmq.log.batch_bodies import Scratch
from bmq.log.origin import DamagedBatch, Origin
from bmq.protocol.compression import Buffer
from bmq.records import batch_layout as layout
from bmq.records import columns
from bmq.records.column_layout import Columns

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bodies:
    """The first batches of a scan with their records decompressed. `data`: what views of records point into."""

    headers: Headers
    opened: batch_bodies.OpenedBatches

    @property
    def data(self) -> Buffer:
        return self.opened.bodies.data


@dataclass(frozen=True, slots=True)
class Rows:
    """The result of a walk, one entry per record. Views as in column_layout; in the null arrays 1 means null."""

    offsets: Int64s
    timestamps: Int64s
    key_views: npt.NDArray[np.int32]
    key_nulls: npt.NDArray[np.uint8]
    value_views: npt.NDArray[np.int32]
    value_nulls: npt.NDArray[np.uint8]
    header_places: Int64s
    header_offsets: npt.NDArray[np.int32]


def open_bodies(
    data: Buffer,
    origin: Origin,
    headers: Headers,
    wanted: int,
    *,
    bytes_max: int,
    batch_bytes_max: int,
    is_verified: bool,
    scratch: Scratch,
) -> Bodies:
    """As bmq.log.batch_bodies.open_bodies."""
    opened = batch_bodies.open_bodies(
        data,
        origin,
        headers.tobytes(),
        wanted,
        bytes_max=bytes_max,
        batch_bytes_max=batch_bytes_max,
        is_verified=is_verified,
        scratch=scratch,
    )
    return Bodies(headers[: opened.bodies.batch_count], opened)


def walk(bodies: Bodies, origin: Origin, wanted: int) -> Rows:
    """The records of all bodies, as far as `wanted` (batch_layout.WANTS_…) says; offsets always. Raises DamagedBatch."""
    count = int(bodies.headers["record_count"].sum(dtype=np.int64))
    keys = count if wanted & layout.WANTS_KEY else 0
    values = count if wanted & layout.WANTS_VALUE else 0
    with_headers = count if wanted & layout.WANTS_HEADERS else 0
    rows = Rows(
        offsets=np.empty(count, np.int64),
        timestamps=np.empty(count if wanted & layout.WANTS_TIMESTAMP else 0, np.int64),
        key_views=np.empty((keys, 4), np.int32),
        key_nulls=np.empty(keys, np.uint8),
        value_views=np.empty((values, 4), np.int32),
        value_nulls=np.empty(values, np.uint8),
        header_places=np.empty(with_headers, np.int64),
        header_offsets=np.zeros(with_headers + 1, np.int32),
    )
    memory = Columns(
        count,
        *(
            column.data
            for column in (
                rows.offsets,
                rows.timestamps,
                rows.key_views,
                rows.key_nulls,
                rows.value_views,
                rows.value_nulls,
                rows.header_places,
                rows.header_offsets,
            )
        ),
    )
    opened = bodies.opened
    status, number = columns.walk(opened.bodies, opened.is_opened, wanted, memory)
    if status:
        header = bodies.headers[number]
        raise DamagedBatch(origin, int(header["place"]), int(header["base_offset"]), layout.REASONS[-status])
    return rows
