"""The newest offset of each key, for one pass of compaction: a hash table of fixed size. Pure.

A slot has 128 bits of SipHash-2-4 of the key, not the key itself, as Kafka's has its MD5 (SkimpyOffsetMap): two keys with
one hash would lose a record. SipHash is keyed, so nobody can choose keys that collide.
"""

from __future__ import annotations

from typing import Final

from bmq.dataclass import dataclass
from bmq.protocol.compression import Buffer
from bmq.records import key_compaction
from bmq.records.batch_layout import SLOT, Bodies, Chosen, KeyTable, Noted
from bmq.records.fresh_memory import fresh_memory

SLOT_BYTES: Final = SLOT.size
LOAD_MAX: Final = 0.8
"""Share of the slots that may be taken: a key that is not there takes a dozen looks then."""


def bytes_for(keys: int) -> int:
    """The size of a map that is not full with so many keys."""
    return (int(keys / LOAD_MAX) + 2) * SLOT_BYTES


class KeyMap:
    """For the records from `base_offset` on, of one pass. `size_bytes`: of its memory; `seed`: 16 secret bytes."""

    def __init__(self, size_bytes: int, base_offset: int, seed: bytes) -> None:
        slots = max(2, size_bytes // SLOT_BYTES)
        # Fresh pages are zeros, and take no memory until a key comes into them.
        self._table = KeyTable(fresh_memory(slots * SLOT_BYTES), max(1, int(slots * LOAD_MAX)), base_offset, seed)

    def __len__(self) -> int:
        """How many keys it has."""
        return self._table.count

    def note(self, bodies: Bodies, skipped: Buffer, dirty_offset: int) -> Noted:
        """Note the keys of records from `dirty_offset` on. `skipped`: a byte per batch, 1 if its records do not count.

        When the map is full, it knows nothing of the records from the `full_offset` on.
        """
        return key_compaction.note_keys(bodies, skipped, dirty_offset, self._table)

    def note_hashes(self, hashes: KeyHashes, end_offset: int) -> None:
        """Note the newest offsets of keys by their hashes, of the same seed, each key once.

        Keys whose newest offset lies before this pass are left out, and what lies behind `end_offset` counts as that.
        Raises ValueError: there is no room, or an offset is out of reach.
        """
        noted = key_compaction.note_hashes(self._table, hashes.first, hashes.second, hashes.offsets, end_offset)
        count = memoryview(hashes.offsets).nbytes // 8
        if noted < count:
            what = "do not fit into" if self._table.count == self._table.count_max else "are out of reach of"
            raise ValueError(
                f"{count - noted} of {count} keys {what} a map of {self._table.count_max} keys "
                f"from offset {self._table.base_offset} on"
            )

    def choose_survivors(self, bodies: Bodies, discarded: Buffer, noted_offset: int, now_ms: int) -> Chosen:
        """Which records stay, as records.key_compaction.choose_survivors says."""
        return key_compaction.choose_survivors(bodies, discarded, noted_offset, now_ms, self._table)


@dataclass(frozen=True, slots=True)
class KeyHashes:
    """Hashes of keys as two words of 64 bits each, and the offsets of their records (int64); a key may be there twice.

    Buffers of one length, in the machine's byte order.
    """

    first: Buffer
    second: Buffer
    offsets: Buffer

    def __len__(self) -> int:
        return memoryview(self.offsets).nbytes // 8


class HashedKeys:
    """Takes keys as a KeyMap does, and keeps only their hashes: `taken`, for each call of `note`."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self.taken: list[KeyHashes] = []

    def note(self, bodies: Bodies, skipped: Buffer, dirty_offset: int) -> Noted:
        """As KeyMap.note; it is never full."""
        status, number, first, second, offsets = key_compaction.hash_keys(bodies, skipped, dirty_offset, self._seed)
        self.taken.append(KeyHashes(memoryview(first), memoryview(second), memoryview(offsets)))
        return Noted(status, number, -1)

    def choose_survivors(self, bodies: Bodies, discarded: Buffer, noted_offset: int, now_ms: int) -> Chosen:
        raise RuntimeError("keys are noted here, and asked for elsewhere")
