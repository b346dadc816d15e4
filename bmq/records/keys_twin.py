"""Keys of records in Python: as native/keys.c, for any bytes. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records import batch_layout as layout
from bmq.records.key_layout import (
    HASH_MAX,
    HASH_MIN,
    HASH_SHIFT,
    HASHES,
    NO_KEY,
    SLOT_SHIFT,
    SLOTS,
    SPANS_MAX,
    UNKNOWN,
    KeyWindow,
    TakenKeys,
)
from bmq.records.records_twin import Damage, record_places

_MASK: Final = 0xFFFF_FFFF
_MASK_64: Final = (1 << 64) - 1
_FACTOR: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_INT32_MAX: Final = (1 << 31) - 1
_AVAILABLE: Final = 0
_DELAYED: Final = 5
_OVER: Final = frozenset((2, 3, 4, 6))
_RESERVED: Final = 0x80


def murmur2(key: Buffer) -> int:
    """Kafka's Utils.murmur2, as an unsigned number."""
    length = len(key)
    hashed = _SEED ^ length
    whole = length - length % 4
    for place in range(0, whole, 4):
        word = int.from_bytes(key[place : place + 4], "little") * _FACTOR & _MASK
        word = (word ^ word >> 24) * _FACTOR & _MASK
        hashed = hashed * _FACTOR & _MASK ^ word
    if length % 4:
        hashed = (hashed ^ int.from_bytes(key[whole:], "little")) * _FACTOR & _MASK
    hashed = (hashed ^ hashed >> 13) * _FACTOR & _MASK
    return hashed ^ hashed >> 15


def key_hash(key: Buffer) -> int:
    return min(max((murmur2(key) & _INT32_MAX) >> HASH_SHIFT, HASH_MIN), HASH_MAX)


def key_hashes(body: Buffer, record_count: int, last_delta: int) -> tuple[int, array[int]]:
    """As keys.key_hashes."""
    if not 0 <= last_delta <= _INT32_MAX:
        raise ValueError(f"a last offset delta of {last_delta}")
    hashes = array("H", (NO_KEY,)) * (last_delta + 1)
    try:
        for record in record_places(body, 0, len(body), max(record_count, 0), last_delta, layout.WANTS_KEY):
            if record.key_bytes >= 0:
                hashes[record.offset_delta] = key_hash(body[record.key : record.key + record.key_bytes])
    except Damage as damage:
        return -damage.kind, hashes
    return 0, hashes


def own_slots(seeds: Sequence[int]) -> array[int]:
    """As keys.own_slots."""
    if not 1 <= len(seeds) <= 65_535:
        raise ValueError(f"{len(seeds)} members")
    owners = array("H")
    for slot in range(1, SLOTS + 1):
        mixed = [_mixed(seed ^ (slot * 0x9E3779B97F4A7C15 & _MASK_64)) for seed in seeds]
        owners.append(mixed.index(max(mixed)))
    return owners


def _mixed(value: int) -> int:
    value = (value ^ value >> 33) * 0xFF51AFD7ED558CCD & _MASK_64
    value = (value ^ value >> 33) * 0xC4CEB9FE1A85EC53 & _MASK_64
    return value ^ value >> 33


def take_keys(window: KeyWindow, low: int, first: int, end: int, records_max: int) -> TakenKeys:
    """As keys.take_keys."""
    if low < 0:
        raise ValueError(f"a window from {low} on")
    states, hashes = window.states, window.hashes
    count = max(len(states), len(hashes))
    blocked, is_secret = _blocked(window, low)
    spans: list[tuple[int, int]] = []
    taken = waiting = 0
    next_index, unknown_index = -1, max(count, low)
    for index in range(low, count):
        byte = states[index] if index < len(states) else _AVAILABLE
        hashed = hashes[index] if index < len(hashes) else UNKNOWN
        if byte & ~_RESERVED in _OVER:
            continue
        if hashed == UNKNOWN:
            unknown_index = index
            break
        if byte != _AVAILABLE:
            if byte & ~_RESERVED == _DELAYED and hashed != NO_KEY:
                blocked[hashed] = 1
            continue
        if hashed != NO_KEY and (is_secret or blocked[hashed] or window.owners[hashed >> SLOT_SHIFT] != window.me):
            blocked[hashed] = 1
            waiting += 1
            continue
        next_index = index if next_index < 0 else next_index
        if not first <= index < end:
            if hashed != NO_KEY:
                blocked[hashed] = 1
            continue
        if taken >= records_max:
            break
        if spans and spans[-1][1] == index - 1:
            spans[-1] = spans[-1][0], index
        elif len(spans) == SPANS_MAX:
            break
        else:
            spans.append((index, index))
        taken += 1
    return TakenKeys(spans, taken, next_index, unknown_index, waiting)


def _blocked(window: KeyWindow, low: int) -> tuple[bytearray, bool]:
    """Hashes of which another member has a record, or one is in transition; and whether one is not known that has an owner."""
    blocked, is_secret = bytearray(HASHES), False
    for index in range(low, len(window.states)):
        byte = window.states[index]
        if byte & ~_RESERVED in _OVER or byte == _AVAILABLE or byte & ~_RESERVED == _DELAYED:
            continue
        hashed = window.hashes[index] if index < len(window.hashes) else UNKNOWN
        if hashed == UNKNOWN:
            is_secret = True
        elif hashed != NO_KEY and (byte & _RESERVED or not window.mine[window.numbers[index]]):
            blocked[hashed] = 1
    return blocked, is_secret
