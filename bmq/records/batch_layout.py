"""What the kernel says of batches and records: layouts in memory, and numbers. Pure.

The same numbers stand in native/batches.h.
"""

from __future__ import annotations

from array import array
from mmap import mmap
from struct import Struct
from typing import Final, NamedTuple

from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import BatchHeader

BATCH: Final = Struct("=qiiiIiiqqqiiiiq")
"""One batch: the fields of BatchHeader in their order, four unused bytes, and where the batch begins."""
PLACE: Final = 14
"""Which of the fields says where the batch begins."""
HEADER_FIELDS: Final = 13

RECORD_BYTES_MIN: Final = 7
"""A record's length, attributes, two deltas, two lengths and the number of its headers: a byte each."""

WANTS_TIMESTAMP: Final = 1
WANTS_KEY: Final = 2
WANTS_VALUE: Final = 4
WANTS_HEADERS: Final = 8
# The columns a walk fills besides offsets. It also checks a record's bytes before the last of them; with headers all.

# Kinds of damage to a record. Statuses are the negative of these.
CUT: Final = 1
LONG_VARINT: Final = 2
BAD_LENGTH: Final = 3
WRONG_END: Final = 4
OFFSETS_DO_NOT_GROW: Final = 5
BAD_HEADERS: Final = 6
BYTES_LEFT: Final = 7
BAD_CALL: Final = 100

REASONS: Final = {
    CUT: "a record runs past the end of its batch",
    LONG_VARINT: "a varint of a record is longer than 64 bits",
    BAD_LENGTH: "a field of a record has an impossible length",
    WRONG_END: "a record does not end where it says",
    OFFSETS_DO_NOT_GROW: "offsets of records do not grow, or pass the last one of their batch",
    BAD_HEADERS: "a record with impossible headers",
    BYTES_LEFT: "bytes are left behind the last record of a batch",
}

# Why a scan stopped.
SCANNED_ALL: Final = 0
SCANNED_ENOUGH: Final = 1
BATCH_IS_CUT: Final = 2
NO_LENGTH: Final = 3
"""The length field is zero: maybe padding."""
BAD_BATCH_LENGTH: Final = 4
BAD_HEADER: Final = 16
"""And above: which check of the header failed, as in IMPOSSIBLE."""

IMPOSSIBLE: Final = {
    1: "the message format is not 2",
    2: "a record batch with an impossible offset",
    3: "a record batch that ends in front of its first offset",
    4: "a record batch with less than no records",
    5: "more records than offsets",
    6: "a compression codec that does not exist",
    7: "a record batch that begins in front of the end of the one before it",
}

NO_OFFSET_BEFORE: Final = -(1 << 63)


class Scanned(NamedTuple):
    """What a scan found. `batches`: so many (`batch_count`) BATCH structures; `rows`: records in them.

    `place`: where the next batch begins; `size_bytes`: of that one, if it is cut or too long. `last_offset`: of the last
    batch. `why`: it stopped.
    """

    batches: bytearray
    batch_count: int
    rows: int
    place: int
    size_bytes: int
    last_offset: int
    why: int


class Bodies(NamedTuple):
    """Batches with their records decompressed: body i is at [starts[i], ends[i]) of `data`.

    `batches`: BATCH structures; `starts` and `ends`: int64 in the machine's order, one per batch.
    """

    data: Buffer
    batches: Buffer
    starts: array[int]
    ends: array[int]
    batch_count: int


class Stopped(NamedTuple):
    """How a walk through bodies ended: a status, 0 or the negative of a kind of damage, and in which batch."""

    status: int
    number: int


def header_of(batch: tuple[int, ...]) -> BatchHeader:
    """The header of an unpacked BATCH."""
    return BatchHeader._make(batch[:HEADER_FIELDS])


# -- cleaning ----------------------------------------------------------------------------------------------------------

KEPT: Final = Struct("=2q")
"""What stays of one batch: records, and tombstones among them."""

SLOT: Final = Struct("=16sI")
"""A slot of a table of keys: the key's hash, and offset - base_offset + 1, or 0 if it is free."""
DELTA_MAX: Final = (1 << 32) - 2
"""How far from the base offset an offset may be that a table takes."""


class Noted(NamedTuple):
    """As Stopped, and `full_offset`: the first record that the table had no room for; -1: it took all."""

    status: int
    number: int
    full_offset: int


class Hashed(NamedTuple):
    """As Stopped, and the hashes and offsets of keys, one behind the other."""

    status: int
    number: int
    first: array[int]
    second: array[int]
    offsets: array[int]


class Chosen(NamedTuple):
    """As Stopped. `keep`: one byte per record, 1 if it stays; `kept`: a KEPT per batch."""

    status: int
    number: int
    keep: bytearray
    kept: bytearray


class Retained(NamedTuple):
    """`status` as in Stopped. What was written: bytes, records, the time their deltas count from, the greatest time."""

    status: int
    size_bytes: int
    record_count: int
    base_timestamp_ms: int
    max_timestamp_ms: int


class KeyTable:
    """Memory for the newest offset of each key. `slots`: SLOT structures, zeros at first; `seed`: 16 secret bytes.

    Raises ValueError when there is no room for `count_max` keys and a free slot.
    """

    __slots__ = ("base_offset", "count", "count_max", "seed", "slot_count", "slots")

    def __init__(self, slots: bytearray | mmap, count_max: int, base_offset: int, seed: bytes) -> None:
        self.slots = slots
        self.slot_count = len(slots) // SLOT.size
        if not 0 < count_max < self.slot_count or len(seed) != 16:
            raise ValueError(f"{count_max} keys in {self.slot_count} slots, with a seed of {len(seed)} bytes")
        self.count = 0
        self.count_max = count_max
        self.base_offset = base_offset
        self.seed = seed


def body_place(bodies: Bodies, number: int) -> tuple[int, int]:
    """Where one body begins and ends in the data. Raises ValueError when it does not lie there."""
    start, end = bodies.starts[number], bodies.ends[number]
    if not 0 <= start <= end <= len(bodies.data):
        raise ValueError(f"a body from {start} to {end} in {len(bodies.data)} bytes")
    return start, end
