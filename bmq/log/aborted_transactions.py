"""The aborted transactions of a log, by which read_committed consumers leave out their records. Pure.

An entry is four int64: producer id, first offset, last offset (the marker's), last stable offset when the marker was written.
Source: KIP-98, Kafka's TransactionIndex.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

from bmq.log.checksummed_parts import CorruptParts, decode_int64s, encode_int64s
from bmq.log.partition_log import AbortedTransaction
from bmq.log.store import Buffer

_FIELD_COUNT: Final = 4
ENTRY_BYTES: Final = 8 * _FIELD_COUNT


class AbortedEntry(NamedTuple):
    """One aborted transaction. Offsets are inclusive."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedTransactions:
    """A table of aborted transactions in the order of their markers, so last offsets ascend."""

    __slots__ = ("_last_offsets", "_numbers")

    def __init__(self) -> None:
        self._numbers = array("q")
        self._last_offsets = array("q")

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __iter__(self) -> Iterator[AbortedEntry]:
        for place in range(len(self)):
            yield self._at(place)

    def _at(self, place: int) -> AbortedEntry:
        return AbortedEntry(*self._numbers[place * _FIELD_COUNT : (place + 1) * _FIELD_COUNT])

    def add(self, entry: AbortedEntry) -> None:
        """Add a transaction whose marker lies behind all others. Raises ValueError if it does not."""
        if self._last_offsets and entry.last_offset <= self._last_offsets[-1]:
            raise ValueError(f"marker at {entry.last_offset} is not behind {self._last_offsets[-1]}")
        self._numbers.extend(entry)
        self._last_offsets.append(entry.last_offset)

    def overlapping(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in [from, to), in the order of their markers."""
        found: list[AbortedTransaction] = []
        for place in range(bisect_left(self._last_offsets, from_offset), len(self)):
            producer_id, first_offset, _, last_stable_offset = self._at(place)
            if first_offset < to_offset:
                found.append(AbortedTransaction(producer_id, first_offset))
            # Transactions that abort later began at or past the last stable offset of that moment.
            if last_stable_offset >= to_offset:
                break
        return found

    def between(self, from_offset: int, to_offset: int) -> AbortedTransactions:
        """Aborted transactions whose marker lies in [from, to)."""
        return self.part(bisect_left(self._last_offsets, from_offset), bisect_left(self._last_offsets, to_offset))

    def newest(self, from_offset: int, to_offset: int, count_max: int) -> tuple[AbortedTransactions, int]:
        """(the last `count_max` transactions with a marker in [from, to), the offset from which that list is complete).

        That offset is `from_offset` when none was left out, else it follows the last marker left out.
        """
        first, end = bisect_left(self._last_offsets, from_offset), bisect_left(self._last_offsets, to_offset)
        if end - first > count_max:
            from_offset = self._last_offsets[end - count_max - 1] + 1
        return self.between(from_offset, to_offset), from_offset

    def undecided_from(self, offset: int, bound_offset: int) -> int:
        """The lowest first offset of transactions whose marker lies at or past `offset`, or `bound_offset` if lower."""
        place = bisect_left(self._last_offsets, offset)
        if place == len(self._last_offsets):
            return bound_offset
        return min(bound_offset, *self._numbers[place * _FIELD_COUNT + 1 :: _FIELD_COUNT])

    def extend(self, later: AbortedTransactions) -> None:
        """Add the transactions of `later`, whose markers lie behind all others. Raises ValueError if they do not."""
        if self._last_offsets and later._last_offsets and later._last_offsets[0] <= self._last_offsets[-1]:
            raise ValueError(f"marker at {later._last_offsets[0]} is not behind {self._last_offsets[-1]}")
        self._numbers.extend(later._numbers)
        self._last_offsets.extend(later._last_offsets)

    @property
    def first_marker(self) -> int:
        """Offset of the first marker. Raises IndexError when there is none."""
        return self._last_offsets[0]

    @property
    def last_marker(self) -> int:
        """Offset of the last marker. Raises IndexError when there is none."""
        return self._last_offsets[-1]

    def part(self, first: int, end: int) -> AbortedTransactions:
        """The aborted transactions of numbers [first, end), counted from 0."""
        part = AbortedTransactions()
        part._numbers = self._numbers[first * _FIELD_COUNT : end * _FIELD_COUNT]
        part._last_offsets = self._last_offsets[first:end]
        return part

    def drop_before(self, offset: int) -> None:
        """Forget transactions whose marker lies below this offset."""
        end = bisect_left(self._last_offsets, offset)
        del self._numbers[: end * _FIELD_COUNT]
        del self._last_offsets[:end]

    def drop_from(self, offset: int) -> None:
        """Forget transactions whose marker lies at or past this offset."""
        first = bisect_left(self._last_offsets, offset)
        del self._numbers[first * _FIELD_COUNT :]
        del self._last_offsets[first:]

    def remove(self, last_offset: int) -> None:
        """Forget the transaction whose marker has this offset, if there is one, because compaction dropped the marker."""
        place = bisect_left(self._last_offsets, last_offset)
        if place < len(self) and self._last_offsets[place] == last_offset:
            del self._numbers[place * _FIELD_COUNT : (place + 1) * _FIELD_COUNT]
            del self._last_offsets[place]

    def encode(self) -> bytes:
        return encode_int64s(self._numbers)

    @classmethod
    def decode(cls, body: Buffer, error: type[CorruptParts] = CorruptParts) -> AbortedTransactions:
        numbers = decode_int64s(body, error)
        if len(numbers) % _FIELD_COUNT:
            raise error("a table of aborted transactions with a part of one")
        decoded = cls()
        decoded._numbers = numbers
        decoded._last_offsets = numbers[2::_FIELD_COUNT]
        last_offsets = decoded._last_offsets
        if any(last_offsets[i] >= last_offsets[i + 1] for i in range(len(last_offsets) - 1)):
            raise error("aborted transactions out of order")
        return decoded
