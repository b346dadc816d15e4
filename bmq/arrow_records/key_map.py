"""The newest offset of each key, for compaction: a hash table of fixed size, filled and asked by compiled loops. Pure.

A slot has 128 bits of SipHash-2-4 of the key, not the key itself, as Kafka's has its MD5 (SkimpyOffsetMap): two keys with
one hash would lose a record. SipHash is keyed, so nobody can choose keys that collide. Source: Aumasson and Bernstein,
"SipHash: a fast short-input PRF", and the 128-bit variant of its reference code.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bmq.arrow_records import kernels

SLOT_BYTES: Final = 20
LOAD_MAX: Final = 0.8
"""Share of the slots that may be taken: a key that is not there takes a dozen looks then."""

_VIEW_BYTES: Final = 16
_INLINE_BYTES_MAX: Final = 12
_DELTA_MAX: Final = 2**32 - 2


@kernels.compiled
def _rotated(value: Any, bits: Any) -> Any:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@kernels.compiled
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0 += v1
    v2 += v3
    v1 = _rotated(v1, 13) ^ v0
    v3 = _rotated(v3, 16) ^ v2
    v0 = _rotated(v0, 32)
    v2 += v1
    v0 += v3
    v1 = _rotated(v1, 17) ^ v2
    v3 = _rotated(v3, 21) ^ v0
    v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


@kernels.compiled
def siphash(data: kernels.Bytes, start: int, length: int, key0: Any, key1: Any) -> Any:
    """Two words of 64 bits, of data[start:start + length]. `key0` and `key1` are uint64, least byte first."""
    v0 = key0 ^ np.uint64(0x736F6D6570736575)
    v1 = key1 ^ np.uint64(0x646F72616E646F6D) ^ np.uint64(0xEE)
    v2 = key0 ^ np.uint64(0x6C7967656E657261)
    v3 = key1 ^ np.uint64(0x7465646279746573)
    place = start
    for _ in range(length >> 3):
        word = np.uint64(0)
        for at in range(8):
            word |= np.uint64(data[place + at]) << np.uint64(8 * at)
        place += 8
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
    word = np.uint64(length & 0xFF) << np.uint64(56)
    for at in range(length & 7):
        word |= np.uint64(data[place + at]) << np.uint64(8 * at)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= np.uint64(0xEE)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= np.uint64(0xDD)
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@kernels.compiled
def _int32(data: Any, place: int) -> Any:
    value = np.int64(0)
    for at in range(4):
        value |= np.int64(data[place + at]) << (8 * at)
    return value


@kernels.compiled
def _slot_of(data: kernels.Bytes, views: Any, row: int, key0: Any, key1: Any, hashes: Any, deltas: Any) -> Any:
    """(slot, first word, second word) of a row's key: the slot that has it, or the free one where it belongs."""
    length = _int32(views, row * _VIEW_BYTES)
    if length <= _INLINE_BYTES_MAX:
        first, second = siphash(views, row * _VIEW_BYTES + 4, length, key0, key1)
    else:
        first, second = siphash(data, _int32(views, row * _VIEW_BYTES + 12), length, key0, key1)
    size = len(deltas)
    slot: Any = np.int64(first % np.uint64(size))
    while deltas[slot] != 0 and (hashes[slot, 0] != first or hashes[slot, 1] != second):
        slot += 1
        if slot == size:
            slot = 0
    return slot, first, second


@kernels.compiled
def _put(
    data: kernels.Bytes,
    views: Any,
    takes: Any,
    offsets: Any,
    base_offset: int,
    room: int,
    key0: Any,
    key1: Any,
    hashes: Any,
    deltas: Any,
) -> Any:
    """Note the offsets of the rows that `takes` names. (rows gone through, slots newly taken), fewer rows when full."""
    taken = 0
    for row in range(len(takes)):
        if not takes[row]:
            continue
        slot, first, second = _slot_of(data, views, row, key0, key1, hashes, deltas)
        delta = offsets[row] - base_offset
        if delta > _DELTA_MAX:
            return row, taken
        if deltas[slot] == 0:
            if taken == room:
                return row, taken
            taken += 1
            hashes[slot, 0] = first
            hashes[slot, 1] = second
        deltas[slot] = np.uint32(delta + 1)
    return len(takes), taken


@kernels.compiled
def _put_hashes(first: Any, second: Any, marks: Any, hashes: Any, deltas: Any) -> None:
    """Note slots' contents as they are; there has to be room. `marks`: offset - base_offset + 1."""
    size = len(deltas)
    for row in range(len(first)):
        slot: Any = np.int64(first[row] % np.uint64(size))
        while deltas[slot] != 0 and (hashes[slot, 0] != first[row] or hashes[slot, 1] != second[row]):
            slot += 1
            if slot == size:
                slot = 0
        hashes[slot, 0] = first[row]
        hashes[slot, 1] = second[row]
        deltas[slot] = marks[row]


@kernels.compiled
def _hash(data: kernels.Bytes, views: Any, takes: Any, key0: Any, key1: Any, first: Any, second: Any) -> Any:
    """The hashes of the rows that `takes` names, one behind the other; how many."""
    count = 0
    for row in range(len(takes)):
        if not takes[row]:
            continue
        length = _int32(views, row * _VIEW_BYTES)
        if length <= _INLINE_BYTES_MAX:
            one, other = siphash(views, row * _VIEW_BYTES + 4, length, key0, key1)
        else:
            one, other = siphash(data, _int32(views, row * _VIEW_BYTES + 12), length, key0, key1)
        first[count] = one
        second[count] = other
        count += 1
    return count


@kernels.compiled
def _find_newest(
    data: kernels.Bytes,
    views: Any,
    takes: Any,
    offsets: Any,
    base_offset: int,
    key0: Any,
    key1: Any,
    hashes: Any,
    deltas: Any,
    newest: Any,
) -> None:
    for row in range(len(takes)):
        if takes[row]:
            slot, _, _ = _slot_of(data, views, row, key0, key1, hashes, deltas)
            newest[row] = deltas[slot] == 0 or offsets[row] - base_offset >= np.int64(deltas[slot]) - 1


def bytes_for(keys: int) -> int:
    """The size of a map that is not full with so many keys."""
    return (int(keys / LOAD_MAX) + 2) * SLOT_BYTES


def hashes_of(
    data: kernels.Bytes, views: npt.NDArray[np.int32], takes: npt.NDArray[np.bool_], seed: bytes
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Both words of the hashes of the rows that `takes` names."""
    count = int(takes.sum())
    first, second = np.empty(count, np.uint64), np.empty(count, np.uint64)
    key0, key1 = np.frombuffer(seed, "<u8").astype(np.uint64)
    _hash(data, views.reshape(-1).view(np.uint8), takes, key0, key1, first, second)
    return first, second


class KeyMap:
    """For the records from `base_offset` on, of one pass. `size_bytes`: of its memory; `seed`: 16 secret bytes.

    Rows come as the views of bmq.arrow_records.bodies.walk, whose `data` they point into.
    """

    def __init__(self, size_bytes: int, base_offset: int, seed: bytes) -> None:
        slots = max(2, size_bytes // SLOT_BYTES)
        self._hashes = np.empty((slots, 2), np.uint64)
        self._deltas = np.zeros(slots, np.uint32)  # offset - base_offset + 1; 0: the slot is free
        self._key0, self._key1 = np.frombuffer(seed, "<u8").astype(np.uint64)
        self._base_offset = base_offset
        self._count_max = max(1, int(slots * LOAD_MAX))
        self._count = 0

    def __len__(self) -> int:
        """How many keys it has."""
        return self._count

    def put(
        self,
        data: kernels.Bytes,
        views: npt.NDArray[np.int32],
        takes: npt.NDArray[np.bool_],
        offsets: npt.NDArray[np.int64],
    ) -> int:
        """Note the rows that `takes` names, in ascending order of offsets; how many rows it came through.

        Fewer than there are: the map is full, and knows nothing of the rows from there on.
        """
        rows, taken = _put(
            data,
            views.reshape(-1).view(np.uint8),
            takes,
            offsets,
            self._base_offset,
            self._count_max - self._count,
            self._key0,
            self._key1,
            self._hashes,
            self._deltas,
        )
        self._count += taken
        return int(rows)

    def put_hashes(
        self, first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64], offsets: npt.NDArray[np.int64]
    ) -> None:
        """Note the newest offsets of keys by their hashes (`hashes_of`, of the same seed), each key once.

        Raises ValueError: there is no room, or an offset is out of reach.
        """
        marks = offsets - self._base_offset + 1
        if len(first) > self._count_max - self._count:
            raise ValueError(f"{len(first)} keys do not fit into a map of {self._count_max}")
        if len(marks) and (marks.min() < 1 or marks.max() - 1 > _DELTA_MAX):
            raise ValueError(f"offsets from {offsets.min()} to {offsets.max()} are out of reach of {self._base_offset}")
        _put_hashes(first, second, marks.astype(np.uint32), self._hashes, self._deltas)
        self._count += len(first)

    def newest(
        self,
        data: kernels.Bytes,
        views: npt.NDArray[np.int32],
        takes: npt.NDArray[np.bool_],
        offsets: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.bool_]:
        """Which of the rows that `takes` names have no newer record of their key in the map. Others: False."""
        newest = np.zeros(len(takes), np.bool_)
        _find_newest(
            data,
            views.reshape(-1).view(np.uint8),
            takes,
            offsets,
            self._base_offset,
            self._key0,
            self._key1,
            self._hashes,
            self._deltas,
            newest,
        )
        return newest
