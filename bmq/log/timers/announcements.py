"""Control batches that announce the batch right behind them: records held until they are due, and their delivery. Pure.

An announcement is valid only if the next batch in the log is the one that it names (docs/decisions/0059); else readers ignore it.
Clients skip control batches with a key of ours (protocol/control_batch).

    held records, type 100     version (u8)  codec of the bodies (u8)  count (i32)  crc32c (u32) and last offset delta (i32)
                               of the batch behind, then count times: due time (i64)  record's own time (i64)
                               offset delta in the batch behind (i32)  body bytes (i32); then the bodies, back to back.
                               Version 1 also has cancellations: entries with due time and offset of the record that is
                               cancelled in place of the first two, and -1 body bytes
    delivery, type 101         version (u8)  crc32c (u32) and last offset delta (i32) of the batch behind, position before
                               (due time, offset: i64), position after (the same)

Integers are big-endian. A body is a record's bytes from the length of its key on. The batch's checksum covers all of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from operator import lt
from struct import Struct
from sys import byteorder
from typing import Final, NamedTuple, overload

from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression, compress, decompress
from bmq.protocol.control_batch import OwnControlType, own_control_key, own_control_type
from bmq.protocol.record_batch import CONTROL, NO_TIMESTAMP_MS, BatchHeader, CorruptRecords

_VERSION: Final = 0
_WITH_CANCELS: Final = 1
_HELD: Final = Struct(">BBiIi")
_ENTRY: Final = Struct(">qqii")
_DELIVERY: Final = Struct(">BIiqqqq")
_CANCELS: Final = -1  # stands in place of the body's length in a cancellation


class Position(NamedTuple):
    """A place in the order of deliveries: due time, then name. `offset`: the record's name, the one in the produce response."""

    due_ms: int
    offset: int


START: Final = Position(-1, -1)
"""The position before the first delivery."""


class NamedBatch(NamedTuple):
    """How an announcement identifies the batch behind it: by checksum and last offset delta."""

    crc: int
    last_offset_delta: int

    @classmethod
    def of(cls, header: BatchHeader) -> NamedBatch:
        return cls(header.crc, header.last_offset_delta)


class HeldRecord(NamedTuple):
    """A delayed record. `offset_delta`: its place in the producer's batch. `body`: its bytes from the key's length on."""

    due_ms: int
    timestamp_ms: int
    offset_delta: int
    body: Buffer


class Cancel(NamedTuple):
    """A record that cancels the delayed record `target`. `offset_delta`: its own place in the producer's batch."""

    target: Position
    offset_delta: int


class _Entry(NamedTuple):
    due_ms: int
    timestamp_ms: int
    offset_delta: int
    body_bytes: int


class HeldColumns:
    """The entries of an announcement's held records: `packed` as bytes (an _ENTRY each), and three fields as columns."""

    __slots__ = ("bodies_bytes", "dues_ms", "offset_deltas", "packed", "sizes_bytes")

    def __init__(self, packed: Buffer) -> None:
        self.packed = packed
        longs, ints = memoryview(packed).cast("q"), memoryview(packed).cast("i")
        self.dues_ms = _from_big_endian("q", longs[::3])
        self.offset_deltas = _from_big_endian("i", ints[4::6])
        self.sizes_bytes = _from_big_endian("i", ints[5::6])
        self.bodies_bytes = sum(self.sizes_bytes)

    def __len__(self) -> int:
        return len(self.dues_ms)

    def is_sound(self, last_offset_delta: int) -> bool:
        """Whether the entries are valid: no negative field, and offset deltas that ascend up to `last_offset_delta`."""
        deltas = self.offset_deltas
        return not deltas or (
            min(self.dues_ms) >= 0
            and min(self.sizes_bytes) >= 0
            and deltas[0] >= 0
            and deltas[-1] <= last_offset_delta
            and all(map(lt, deltas, islice(deltas, 1, None)))
        )


def _from_big_endian(code: str, column: memoryview) -> array[int]:
    values = array(code, column.tolist())
    if byteorder == "little":
        values.byteswap()
    return values


class PackedHeld(Sequence[HeldRecord]):
    """Held records in the form of an announcement: `entries` (an _ENTRY each) and `bodies`, both back to back."""

    def __init__(self, entries: memoryview, bodies: memoryview) -> None:
        self.entries = entries
        self.bodies = bodies

    def __len__(self) -> int:
        return len(self.entries) // _ENTRY.size

    def __iter__(self) -> Iterator[HeldRecord]:
        bodies, place = self.bodies, 0
        for due_ms, timestamp_ms, offset_delta, size_bytes in _ENTRY.iter_unpack(self.entries):
            yield HeldRecord(due_ms, timestamp_ms, offset_delta, bodies[place : place + size_bytes])
            place += size_bytes

    @overload
    def __getitem__(self, index: int) -> HeldRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[HeldRecord]: ...
    def __getitem__(self, index: int | slice) -> HeldRecord | list[HeldRecord]:
        """One record or some; takes as long as iterating over all."""
        return list(self)[index]


@dataclass(frozen=True)
class Held:
    """The announcement of one produced batch's delayed records and cancellations.

    `columns`: the entries of the delayed records. `packed`: their bodies, back to back, compressed by `codec`.
    """

    behind: NamedBatch
    columns: HeldColumns
    codec: Compression
    packed: Buffer
    cancels: tuple[Cancel, ...] = ()

    @cached_property
    def entries(self) -> tuple[_Entry, ...]:
        return tuple(map(_Entry._make, _ENTRY.iter_unpack(self.columns.packed)))

    @cached_property
    def bodies(self) -> memoryview:
        """The decompressed bodies, back to back. Raises CorruptRecords, BadCompressedData."""
        length_bytes = self.columns.bodies_bytes
        bodies = memoryview(decompress(self.codec, self.packed, length_bytes))
        if len(bodies) != length_bytes:
            raise CorruptRecords(f"bodies of held records have {len(bodies)} bytes, their entries say {length_bytes}")
        return bodies

    @cached_property
    def _places(self) -> dict[int, tuple[int, _Entry]]:
        starts = accumulate(self.columns.sizes_bytes, initial=0)
        return {entry.offset_delta: (start, entry) for start, entry in zip(starts, self.entries, strict=False)}

    def record(self, offset_delta: int) -> HeldRecord:
        """The record with this place in the producer's batch. Raises KeyError, CorruptRecords, BadCompressedData."""
        start, entry = self._places[offset_delta]
        body = self.bodies[start : start + entry.body_bytes]
        return HeldRecord(entry.due_ms, entry.timestamp_ms, offset_delta, body)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The announcement of a delivery: the batch behind it has the records from above `before` up to `after`."""

    behind: NamedBatch
    before: Position
    after: Position


Announcement = Held | Delivery


def encode_held(
    records: Sequence[HeldRecord],
    behind: NamedBatch,
    codec: Compression = Compression.NONE,
    level: int | None = None,
    cancels: Sequence[Cancel] = (),
) -> bytearray:
    """The control batch that holds these records and cancellations. `records` and `cancels` are each in order of offset delta."""
    held = records if isinstance(records, PackedHeld) else _packed(records)
    entries: Buffer = held.entries
    if cancels:
        rows = list(map(_Entry._make, _ENTRY.iter_unpack(entries)))
        rows += [_Entry(*cancel.target, cancel.offset_delta, _CANCELS) for cancel in cancels]
        rows.sort(key=lambda row: row.offset_delta)
        entries = b"".join(_ENTRY.pack(*row) for row in rows)
    head = _HELD.pack(_WITH_CANCELS if cancels else _VERSION, codec, len(held) + len(cancels), *behind)
    packed = held.bodies if codec is Compression.NONE else compress(codec, held.bodies, level)
    return _control_batch(OwnControlType.HELD_RECORDS, b"".join((head, entries, packed)))


def _packed(records: Sequence[HeldRecord]) -> PackedHeld:
    bodies = b"".join(record.body for record in records)
    entries = b"".join(
        _ENTRY.pack(record.due_ms, record.timestamp_ms, record.offset_delta, len(record.body)) for record in records
    )
    return PackedHeld(memoryview(entries), memoryview(bodies))


def encode_delivery(delivery: Delivery) -> bytearray:
    """The control batch that announces a delivery."""
    value = _DELIVERY.pack(_VERSION, *delivery.behind, *delivery.before, *delivery.after)
    return _control_batch(OwnControlType.DELIVERY, value)


def _control_batch(control_type: OwnControlType, value: bytes) -> bytearray:
    return encode_batch(
        (Record(own_control_key(control_type), value, timestamp_ms=NO_TIMESTAMP_MS),), attributes=CONTROL
    )


def parse_announcement(batch: Buffer, position: int = 0) -> Announcement | None:
    """The announcement in the control batch at `position`; None when it is another kind of control batch.

    Raises CorruptRecords if it contradicts itself, or has a version that this release does not know: skipping it would lose
    its records.
    """
    records = decode_records(batch, position)
    control_type = own_control_type(records[0].key) if len(records) == 1 else None
    if control_type not in (OwnControlType.HELD_RECORDS, OwnControlType.DELIVERY):
        return None
    value = records[0].value or b""
    is_held = control_type is OwnControlType.HELD_RECORDS
    if not value or value[0] not in ((_VERSION, _WITH_CANCELS) if is_held else (_VERSION,)):
        raise CorruptRecords(f"an announcement of type {control_type} with version {value[:1].hex() or 'none'}")
    return _parse_held(value) if is_held else _parse_delivery(value)


def _parse_held(value: bytes) -> Held:
    if len(value) < _HELD.size:
        raise CorruptRecords(f"held records in {len(value)} bytes")
    version, number, count, crc, last_offset_delta = _HELD.unpack_from(value)
    end = _HELD.size + count * _ENTRY.size
    if number > Compression.ZSTD or count <= 0 or end > len(value):
        raise CorruptRecords(f"{count} held records of codec {number} in {len(value)} bytes")
    packed = value[_HELD.size : end]
    cancels: tuple[Cancel, ...] = ()
    if version == _WITH_CANCELS:
        packed, cancels = _without_cancels(packed, last_offset_delta)
    columns = HeldColumns(packed)
    if not columns.is_sound(last_offset_delta):
        raise CorruptRecords("held records that are out of order")
    if columns.bodies_bytes > DECOMPRESSED_BYTES_MAX:
        raise CorruptRecords("held records of more bytes than a batch may have")
    return Held(NamedBatch(crc, last_offset_delta), columns, Compression(number), memoryview(value)[end:], cancels)


def _without_cancels(packed: bytes, last_offset_delta: int) -> tuple[bytes, tuple[Cancel, ...]]:
    """(the entries of records, the cancellations), separated from the mixed entries. Raises CorruptRecords."""
    rows = tuple(map(_Entry._make, _ENTRY.iter_unpack(packed)))
    previous = -1
    for row in rows:
        if not previous < row.offset_delta <= last_offset_delta or row.body_bytes < _CANCELS or row.due_ms < 0:
            raise CorruptRecords("held records that are out of order")
        previous = row.offset_delta
    cancels = tuple(
        Cancel(Position(row.due_ms, row.timestamp_ms), row.offset_delta) for row in rows if row.body_bytes == _CANCELS
    )
    return b"".join(_ENTRY.pack(*row) for row in rows if row.body_bytes != _CANCELS), cancels


def _parse_delivery(value: bytes) -> Delivery:
    if len(value) != _DELIVERY.size:
        raise CorruptRecords(f"a delivery in {len(value)} bytes")
    _, crc, last_offset_delta, *numbers = _DELIVERY.unpack(value)
    before, after = Position(*numbers[:2]), Position(*numbers[2:])
    if before >= after:
        raise CorruptRecords("a delivery that goes back")
    return Delivery(NamedBatch(crc, last_offset_delta), before, after)
