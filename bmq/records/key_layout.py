"""What the kernel says of keys: hashes, ranges of them, and windows of records in memory. Pure.

The hash of a key is made of Kafka's murmur2, as its default partitioner uses it, without the sign: of the 31 bits the upper
16. The partitioner takes the remainder of the same number, so the lower ones are alike in many keys of a partition. Source:
Kafka's Utils.murmur2, Utils.toPositive, BuiltInPartitioner.
"""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

UNKNOWN: Final = 0
"""In place of a hash: no proxy has told it yet."""
NO_KEY: Final = 65_535
"""In place of a hash: no order is kept. A record without a key, or an offset without a record."""
HASH_MIN: Final = 1
HASH_MAX: Final = 65_534
HASH_SHIFT: Final = 15
SLOTS: Final = 4_096
"""Ranges of hashes, each of 16 or so. A range has one owner."""
SLOT_SHIFT: Final = 4
NOBODY: Final = SLOTS + 65_535
"""The number of a member that owns no range."""
LOCK_NUMBERS: Final = 65_536
HASHES: Final = 65_536
SPANS_MAX: Final = 4_096
"""Of one call; the next one takes the rest."""


class KeyWindow(NamedTuple):
    """Records from some offset on, by index. `states` and `numbers`: of those that were given; the others are available.
    `hashes`: one each; behind them they are UNKNOWN. `mine`: LOCK_NUMBERS bytes, 1 where the member has the lock.
    `owners`: who owns each of the SLOTS; `me`: the member's number there, or NOBODY.
    """

    states: bytearray
    numbers: array[int]
    hashes: array[int]
    mine: bytearray
    owners: array[int]
    me: int


class TakenKeys(NamedTuple):
    """`spans`: first and last index of each; `taken`: records in them. `next_index`: the first record that may be taken,
    in the range or not; -1: none may. `unknown_index`: of the first open record whose hash is not known. `waiting`: available
    records in front of it that may not be taken.
    """

    spans: list[tuple[int, int]]
    taken: int
    next_index: int
    unknown_index: int
    waiting: int
