"""The kernel's part of compaction in Python: as native/cleaning.c, for any bytes. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from struct import Struct
from typing import Final

from bmq.protocol.compression import Buffer
from bmq.records import batch_layout as layout
from bmq.records.batch_layout import KEPT, SLOT, Bodies, Chosen, Hashed, KeyTable, Noted, Retained
from bmq.records.records_twin import (
    Body,
    Damage,
    RecordPlaces,
    append_varint,
    bodies_of,
    record_places,
    varint,
    wrapped,
)

_WORDS: Final = Struct("<2Q")
_WORD: Final = Struct("<Q")
_MASK: Final = (1 << 64) - 1
_CONTROL: Final = 1 << 5
_LOG_APPEND_TIME: Final = 1 << 3
_DELETE_HORIZON: Final = 1 << 6
_WHOLE: Final = layout.WANTS_TIMESTAMP | layout.WANTS_KEY | layout.WANTS_VALUE | layout.WANTS_HEADERS


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _rounds(v0: int, v1: int, v2: int, v3: int, count: int) -> tuple[int, int, int, int]:
    for _ in range(count):
        v0 = (v0 + v1) & _MASK
        v2 = (v2 + v3) & _MASK
        v1 = _rotated(v1, 13) ^ v0
        v3 = _rotated(v3, 16) ^ v2
        v0 = _rotated(v0, 32)
        v2 = (v2 + v1) & _MASK
        v0 = (v0 + v3) & _MASK
        v1 = _rotated(v1, 17) ^ v2
        v3 = _rotated(v3, 21) ^ v0
        v2 = _rotated(v2, 32)
    return v0, v1, v2, v3


def siphash(message: Buffer, seed: bytes) -> tuple[int, int]:
    """SipHash-2-4 of 128 bits as two words. Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF"."""
    key0, key1 = _WORDS.unpack(seed)
    v0, v1 = key0 ^ 0x736F6D6570736575, key1 ^ 0x646F72616E646F6D ^ 0xEE
    v2, v3 = key0 ^ 0x6C7967656E657261, key1 ^ 0x7465646279746573
    length = len(message)
    padded = bytes(message) + bytes(7 - length % 8) + bytes((length & 0xFF,))
    for (word,) in _WORD.iter_unpack(padded):
        v3 ^= word
        v0, v1, v2, v3 = _rounds(v0, v1, v2, v3, 2)
        v0 ^= word
    v0, v1, v2, v3 = _rounds(v0, v1, v2 ^ 0xEE, v3, 4)
    first = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _rounds(v0, v1 ^ 0xDD, v2, v3, 4)
    return first, v0 ^ v1 ^ v2 ^ v3


def _slot_of(table: KeyTable, first: int, second: int) -> tuple[int, int, bytes]:
    """(where the slot lies, its mark, the hash as a slot has it)."""
    wanted = first.to_bytes(8, _ORDER) + second.to_bytes(8, _ORDER)
    slot = first % table.slot_count
    while True:
        place = slot * SLOT.size
        found, mark = SLOT.unpack_from(table.slots, place)
        if not mark or found == wanted:
            return place, mark, wanted
        slot = (slot + 1) % table.slot_count


_ORDER: Final = "little" if array("H", (1,)).tobytes() == b"\x01\x00" else "big"


def _note(table: KeyTable, first: int, second: int, offset: int) -> bool:
    delta = offset - table.base_offset
    if not 0 <= delta <= layout.DELTA_MAX:
        return False
    place, mark, wanted = _slot_of(table, first, second)
    if not mark:
        if table.count == table.count_max:
            return False
        table.count += 1
    SLOT.pack_into(table.slots, place, wanted, delta + 1)
    return True


def _is_newest(table: KeyTable, first: int, second: int, offset: int) -> bool:
    _, mark, _ = _slot_of(table, first, second)
    return not mark or offset - table.base_offset >= mark - 1


def _records(bodies: Bodies, body: Body, wanted: int) -> Iterator[RecordPlaces]:
    batch = body.batch
    return record_places(bodies.data, body.start, body.end, batch[12], batch[6], wanted)


def _keys(bodies: Bodies, number: int, body: Body, skipped: Buffer, dirty_offset: int) -> Iterator[tuple[int, Buffer]]:
    """(offset, key) of each record that counts. Raises Damage."""
    for record in _records(bodies, body, layout.WANTS_KEY | layout.WANTS_VALUE):
        offset = body.batch[0] + record.offset_delta
        if record.key_bytes >= 0 and offset >= dirty_offset and not skipped[number]:
            yield offset, bodies.data[record.key : record.key + record.key_bytes]


def note_keys(bodies: Bodies, skipped: Buffer, dirty_offset: int, table: KeyTable) -> Noted:
    """As key_compaction.note_keys."""
    for number, body in enumerate(bodies_of(bodies)):
        try:
            for offset, key in _keys(bodies, number, body, skipped, dirty_offset):
                if not _note(table, *siphash(key, table.seed), offset):
                    return Noted(0, number, offset)
        except Damage as damage:
            return Noted(-damage.kind, number, -1)
    return Noted(0, bodies.batch_count, -1)


def hash_keys(bodies: Bodies, skipped: Buffer, dirty_offset: int, seed: bytes) -> Hashed:
    """As key_compaction.hash_keys."""
    first, second, offsets = array("Q"), array("Q"), array("q")
    for number, body in enumerate(bodies_of(bodies)):
        try:
            for offset, key in _keys(bodies, number, body, skipped, dirty_offset):
                one, other = siphash(key, seed)
                first.append(one)
                second.append(other)
                offsets.append(offset)
        except Damage as damage:
            return Hashed(-damage.kind, number, first, second, offsets)
    return Hashed(0, bodies.batch_count, first, second, offsets)


def note_hashes(table: KeyTable, first: Buffer, second: Buffer, offsets: Buffer, end_offset: int) -> int:
    """As key_compaction.note_hashes."""
    words = (memoryview(first).cast("B").cast("Q"), memoryview(second).cast("B").cast("Q"))
    count = 0
    for one, other, offset in zip(*words, memoryview(offsets).cast("B").cast("q"), strict=True):
        if offset >= table.base_offset and not _note(table, one, other, min(offset, end_offset)):
            break
        count += 1
    return count


def choose_survivors(bodies: Bodies, discarded: Buffer, noted_offset: int, now_ms: int, table: KeyTable) -> Chosen:
    """As key_compaction.choose_survivors."""
    keep, kept = bytearray(), bytearray()
    for number, body in enumerate(bodies_of(bodies)):
        batch = body.batch
        attributes = batch[5]
        is_over = attributes & _DELETE_HORIZON and batch[7] <= now_ms
        count = tombstone_count = 0
        try:
            for record in _records(bodies, body, _WHOLE):
                offset = batch[0] + record.offset_delta
                has_value = record.value_bytes >= 0
                if discarded[number]:
                    stays = False
                elif attributes & _CONTROL or offset >= noted_offset:
                    stays = True
                else:
                    stays = record.key_bytes >= 0 and (has_value or not is_over)
                    if stays:
                        key = bodies.data[record.key : record.key + record.key_bytes]
                        stays = _is_newest(table, *siphash(key, table.seed), offset)
                keep.append(stays)
                count += stays
                tombstone_count += stays and not has_value
        except Damage as damage:
            return Chosen(-damage.kind, number, keep, kept)
        kept += KEPT.pack(count, tombstone_count)
    return Chosen(0, bodies.batch_count, keep, kept)


def write_survivors(
    bodies: Bodies, number: int, keep: Buffer, base_timestamp_ms: int | None, out: bytearray
) -> Retained:
    """As key_compaction.write_survivors."""
    body = bodies_of(bodies)[number]
    batch, data = body.batch, bodies.data
    if len(keep) < batch[12]:
        raise ValueError(f"{len(keep)} records to keep or not, the batch has {batch[12]}")
    base_ms, written = base_timestamp_ms or 0, 0
    times_ms: list[int] = []
    try:
        for row, record in enumerate(_records(bodies, body, _WHOLE)):
            if not keep[row]:
                continue
            has_append_time = batch[5] & _LOG_APPEND_TIME
            time_ms = batch[8] if has_append_time else wrapped(batch[7] + record.timestamp_delta)
            if base_timestamp_ms is None and not times_ms:
                base_ms = time_ms
            times_ms.append(time_ms)
            _, attributes = varint(data, record.begin, body.end)
            fields = bytearray((data[attributes],))
            append_varint(fields, wrapped(time_ms - base_ms))
            fields += data[record.behind_timestamp : record.stop]
            head = bytearray()
            append_varint(head, len(fields))
            size = len(head) + len(fields)
            if size > len(out) - written:
                raise ValueError(f"{len(out)} bytes have no room for the records that are kept")
            out[written : written + size] = head + fields
            written += size
    except Damage as damage:
        return Retained(-damage.kind, written, len(times_ms), base_ms, max(times_ms, default=0))
    return Retained(0, written, len(times_ms), base_ms, max(times_ms, default=-(1 << 63)))
