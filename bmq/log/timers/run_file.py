"""A run: held records of a partition in a file of their own, in order of (due time, name). Pure.

    blocks      each: count (u32)  crc32c of what follows (u32)  then count records: due time, name, own time (i64),
                body bytes (u32), body; records grow over the whole file. One with 2**32 - 1 in place of the length has
                no body: it cancels the record of this due time and name, which is in another run
    index       a container of checksummed parts (log/checksummed_parts), with for each block its position, how many records
                are before it, and its first record's due time and name; with the last record's, and the number of all
    tail        position of the index (u64)  its length (u32)  crc32c of both (u32)  magic (8 bytes)

Integers are little-endian. A reader reads the tail, the index, and then one block at a time: from the one that may hold the
first record above a position. A block is closed when it has BLOCK_BYTES or more, so only one long record makes it longer.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from bmq.dataclass import dataclass
from bmq.log.checksummed_parts import CorruptParts, decode_int64s, decode_parts, encode_int64s, encode_parts
from bmq.log.store import Buffer
from bmq.log.timers.announcements import START, Position
from bmq.log.timers.delivering import DueRecord

BLOCK_BYTES: Final = 64 * 1024
INDEX_BYTES_MAX: Final = 64 * 1024 * 1024
_BLOCK: Final = Struct("<II")
_RECORD: Final = Struct("<qqqI")
_TAIL: Final = Struct("<QI")
_CRC: Final = Struct("<I")
_MAGIC: Final = b"BMQTIMR1"
_INDEX_MAGIC: Final = b"BMQTIMX1"
_PARTS: Final = (b"poss", b"cnts", b"dues", b"offs", b"last")
_CANCELS: Final = 2**32 - 1
_LAST_FIELDS: Final = 3  # the last record's due time and name, and the number of records and cancellations

TAIL_BYTES: Final = _TAIL.size + _CRC.size + len(_MAGIC)


class CorruptRun(CorruptParts):
    """A run's file that is not whole, or that contradicts itself."""


class RunBlock(NamedTuple):
    """A block of `record_count` records. `body`: its bytes behind the head. `first`, `last`: places of its outer records."""

    body: Buffer
    record_count: int
    first: Position
    last: Position


class RunEncoder:
    """Encodes a run's file, from records in order or from whole blocks in order. The caller writes the returned bytes."""

    def __init__(self) -> None:
        self.count = 0
        self.first = START
        self.last = START
        self._positions = array("q")
        self._counts = array("q")
        self._dues_ms = array("q")
        self._offsets = array("q")
        self._block: list[bytes] = []
        self._block_bytes = 0
        self._written_bytes = 0
        self._block_first = START

    @property
    def size_bytes(self) -> int:
        """Bytes of the blocks so far."""
        return self._written_bytes + self._block_bytes

    def add(self, record: DueRecord) -> bytes:
        """Add a record; the bytes to write next, perhaps none. Raises ValueError if it does not come behind the last one."""
        position = Position(record.due_ms, record.offset)
        if position <= self.last:
            raise ValueError(f"{position} is not behind {self.last}")
        if not self._block:
            self._block_first = position
        if not self.count:
            self.first = position
        self.last = position
        self.count += 1
        length = _CANCELS if record.is_cancellation else len(record.body)
        head = _RECORD.pack(record.due_ms, record.offset, record.created_ms, length)
        self._block += (head, bytes(record.body))
        self._block_bytes += len(head) + len(record.body)
        return self._end_block() if self._block_bytes >= BLOCK_BYTES else b""

    def add_block(self, block: RunBlock) -> bytes:
        """Add a whole block; the bytes to write next. Raises ValueError if it is out of order, or behind a single record."""
        if self._block or block.first <= self.last:
            raise ValueError(f"{block.first} is not behind {self.last}")
        if not self.count:
            self.first = block.first
        self.last = block.last
        self.count += block.record_count
        return self._closed(block.body, block.record_count, block.first)

    def finish(self) -> bytes:
        """The rest of the file: last block, index and tail. Raises ValueError for a run without records."""
        if not self.count:
            raise ValueError("a run without a record")
        rest = self._end_block() if self._block else b""
        index = encode_parts(
            _INDEX_MAGIC,
            {
                b"poss": encode_int64s(self._positions),
                b"cnts": encode_int64s(self._counts),
                b"dues": encode_int64s(self._dues_ms),
                b"offs": encode_int64s(self._offsets),
                b"last": encode_int64s(array("q", (*self.last, self.count))),
            },
        )
        tail = _TAIL.pack(self._written_bytes, len(index))
        return b"".join((rest, index, tail, _CRC.pack(crc32c(tail)), _MAGIC))

    def _end_block(self) -> bytes:
        body, count = b"".join(self._block), len(self._block) // 2
        self._block.clear()
        self._block_bytes = 0
        return self._closed(body, count, self._block_first)

    def _closed(self, body: Buffer, count: int, first: Position) -> bytes:
        """The bytes of a block of the last `count` records, which it adds to the index."""
        self._positions.append(self._written_bytes)
        self._counts.append(self.count - count)
        self._dues_ms.append(first.due_ms)
        self._offsets.append(first.offset)
        block = b"".join((_BLOCK.pack(count, crc32c(body)), body))
        self._written_bytes += len(block)
        return block


@dataclass(frozen=True, slots=True)
class RunIndex:
    """The places of a run's blocks in its file: 32 bytes for each block.

    `positions`: where blocks begin; `end`: where the last one ends. `counts`: how many records come before each block; `count`:
    how many there are in all. `dues_ms`, `offsets`: due time and name of each block's first record. `last`: the last record's
    place.
    """

    positions: array[int]
    counts: array[int]
    dues_ms: array[int]
    offsets: array[int]
    end: int
    last: Position
    count: int

    @classmethod
    def decode(cls, data: Buffer, end: int) -> RunIndex:
        """Decode an index. `end`: where it begins in the file, which is where the blocks end. Raises CorruptRun."""
        parts = decode_parts(_INDEX_MAGIC, data, _PARTS, CorruptRun)
        positions, counts, dues_ms, offsets, last = (decode_int64s(parts[name], CorruptRun) for name in _PARTS)
        if not len(positions) == len(counts) == len(dues_ms) == len(offsets) or len(last) != _LAST_FIELDS:
            raise CorruptRun("the tables of a run's index differ in length")
        firsts = map(Position, dues_ms, offsets)
        if not positions or positions[0] != 0 or positions[-1] >= end or not _grow(positions) or not _grow(firsts):
            raise CorruptRun("the blocks of a run are out of order")
        if counts[0] != 0 or counts[-1] >= last[2] or not _grow(counts):
            raise CorruptRun("the record counts of a run's blocks contradict each other")
        if Position(dues_ms[-1], offsets[-1]) > Position(last[0], last[1]):
            raise CorruptRun("a run that ends before its last block")
        return cls(positions, counts, dues_ms, offsets, end, Position(last[0], last[1]), last[2])

    def __len__(self) -> int:
        """How many blocks the run has."""
        return len(self.positions)

    def first_of(self, number: int) -> Position:
        """The place of the first record of block `number`."""
        return Position(self.dues_ms[number], self.offsets[number])

    def block_above(self, position: Position) -> int | None:
        """The number of the first block that may have a record above `position`; None if no block has one."""
        if position >= self.last:
            return None
        return max(0, bisect_right(range(len(self)), position, key=self.first_of) - 1)

    def block_of(self, position: Position) -> int | None:
        """The number of the one block that may have a record at `position`; None if no block may."""
        number = bisect_right(range(len(self)), position, key=self.first_of) - 1
        return number if number >= 0 and position <= self.last else None

    def span(self, number: int, count: int = 1) -> tuple[int, int]:
        """(position, length) in the file of `count` blocks from block `number` on."""
        start, behind = self.positions[number], number + count
        end = self.positions[behind] if behind < len(self) else self.end
        return start, end - start


def decode_tail(data: Buffer) -> tuple[int, int]:
    """(position, length) of the index, from the last TAIL_BYTES of the file. Raises CorruptRun."""
    if len(data) != TAIL_BYTES or bytes(data[-len(_MAGIC) :]) != _MAGIC:
        raise CorruptRun("no run ends here")
    tail = data[: _TAIL.size]
    if _CRC.unpack_from(data, _TAIL.size)[0] != crc32c(tail):
        raise CorruptRun("the checksum of a run's tail does not match")
    position, length = _TAIL.unpack(tail)
    if length > INDEX_BYTES_MAX:
        raise CorruptRun(f"a run with an index of {length} bytes")
    return position, length


def block_body(block: Buffer) -> tuple[memoryview, int]:
    """(the block's bytes behind its head, the number of records that the head names). Checks the checksum. Raises CorruptRun."""
    view = memoryview(block)
    if len(view) < _BLOCK.size:
        raise CorruptRun(f"a block of {len(view)} bytes")
    count, crc = _BLOCK.unpack_from(view)
    body = view[_BLOCK.size :]
    if not count or crc32c(body) != crc:
        raise CorruptRun("the checksum of a block does not match")
    return body, count


def records_in(block: Buffer) -> Iterator[DueRecord]:
    """The records of a block. Raises CorruptRun."""
    view, count = block_body(block)
    place = 0
    for _ in range(count):
        if place + _RECORD.size > len(view):
            raise CorruptRun("a record runs past the end of its block")
        due_ms, offset, created_ms, length = _RECORD.unpack_from(view, place)
        place += _RECORD.size
        if length == _CANCELS:
            yield DueRecord(offset, due_ms, created_ms, b"", is_cancellation=True)
            continue
        if length > len(view) - place:
            raise CorruptRun("a record runs past the end of its block")
        yield DueRecord(offset, due_ms, created_ms, view[place : place + length])
        place += length
    if place != len(view):
        raise CorruptRun("bytes are left behind the last record of a block")


def _grow(values: Iterable[int] | Iterable[Position]) -> bool:
    return all(earlier < later for earlier, later in pairwise(values))  # type: ignore[operator]
