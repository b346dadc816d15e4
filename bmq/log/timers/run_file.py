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
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

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
_LAST_FIELDS: Final = 3  # the last record's due time and name, and the number of all

TAIL_BYTES: Final = _TAIL.size + _CRC.size + len(_MAGIC)


class CorruptRun(CorruptParts):
    """A run that is not whole, or that contradicts itself."""


class RunBlock(NamedTuple):
    """`record_count` records as they lie in a block, behind its head."""

    body: Buffer
    record_count: int
    first: Position
    last: Position


class RunWriter:
    """Makes a run's bytes from records in order, or from whole blocks in order."""

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
        """How long the blocks are so far."""
        return self._written_bytes + self._block_bytes

    def add(self, record: DueRecord) -> bytes:
        """The bytes that are to be written next, maybe none. Raises ValueError for a record that is not behind the last one."""
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
        """The same of a whole block, where no record was added alone."""
        if self._block or block.first <= self.last:
            raise ValueError(f"{block.first} is not behind {self.last}")
        if not self.count:
            self.first = block.first
        self.last = block.last
        self.count += block.record_count
        return self._closed(block.body, block.record_count, block.first)

    def finish(self) -> bytes:
        """The rest of the file. Raises ValueError for a run without a record."""
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
        """Of the last `count` records that were counted."""
        self._positions.append(self._written_bytes)
        self._counts.append(self.count - count)
        self._dues_ms.append(first.due_ms)
        self._offsets.append(first.offset)
        block = b"".join((_BLOCK.pack(count, crc32c(body)), body))
        self._written_bytes += len(block)
        return block


@dataclass(frozen=True, slots=True)
class RunIndex:
    """Where the blocks of a run lie: 32 bytes for each. `end`: of the last block. `last`: the last record's place in the order.

    `counts`: how many records are before each block; `count`: all of them.
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
        """`end`: where the index begins in the file. Raises CorruptRun."""
        parts = decode_parts(_INDEX_MAGIC, data, _PARTS, CorruptRun)
        positions, counts, dues_ms, offsets, last = (decode_int64s(parts[name], CorruptRun) for name in _PARTS)
        if not len(positions) == len(counts) == len(dues_ms) == len(offsets) or len(last) != _LAST_FIELDS:
            raise CorruptRun("the tables of a run's index differ in length")
        firsts = map(Position, dues_ms, offsets)
        if not positions or positions[0] != 0 or positions[-1] >= end or not _grow(positions) or not _grow(firsts):
            raise CorruptRun("the blocks of a run are out of order")
        if counts[0] != 0 or counts[-1] >= last[2] or not _grow(counts):
            raise CorruptRun("the blocks of a run have other numbers of records")
        if Position(dues_ms[-1], offsets[-1]) > Position(last[0], last[1]):
            raise CorruptRun("a run that ends before its last block")
        return cls(positions, counts, dues_ms, offsets, end, Position(last[0], last[1]), last[2])

    def __len__(self) -> int:
        """Blocks."""
        return len(self.positions)

    def first_of(self, number: int) -> Position:
        """The first record of a block."""
        return Position(self.dues_ms[number], self.offsets[number])

    def block_above(self, position: Position) -> int | None:
        """The number of the first block that may hold a record above this position; None: there is none."""
        if position >= self.last:
            return None
        return max(0, bisect_right(range(len(self)), position, key=self.first_of) - 1)

    def block_of(self, position: Position) -> int | None:
        """The number of the block that has a record at this place, if there is one; None: there is none."""
        number = bisect_right(range(len(self)), position, key=self.first_of) - 1
        return number if number >= 0 and position <= self.last else None

    def span(self, number: int, count: int = 1) -> tuple[int, int]:
        """(position, length) of so many blocks."""
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
    """What is behind the head of a block, and how many records it says there are. Raises CorruptRun."""
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
