"""The control batch that announces half messages and decisions about them, in front of a producer's batch. Pure.

Like the announcements of delayed records (log/timers/announcements), it is valid only in front of the batch that it names.
Several announcements may name the same batch and follow each other; all of them are valid, or none.

    type 102   version (u8)  codec of the bodies (u8)  distance (u8): offset of the batch behind minus its own
               count of half messages (i32)  count of decisions (i32)  crc32c (u32) and last offset delta (i32) of the batch
               behind  owner's time (i64); then for each half message: its own time (i64)  offset delta in the batch behind (i32)
               bytes of the check id (i32)  bytes of the body (i32)
               then for each decision: offset of the half message (i64)  due time (i64)  offset delta (i32)  outcome (i32)
               then the check ids, back to back, and the bodies, packed

Integers are big-endian. A body is a record's bytes from the length of its key on. The batch's checksum covers all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from struct import Struct
from typing import Final, NamedTuple

from bmq.dataclass import dataclass
from bmq.log.half.half_headers import CHECK_ID_BYTES_MAX, Outcome
from bmq.log.timers.announcements import NamedBatch
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression, compress, decompress
from bmq.protocol.control_batch import OwnControlType, own_control_key, own_control_type
from bmq.protocol.record_batch import CONTROL, NO_TIMESTAMP_MS, CorruptRecords

DISTANCE_MAX: Final = 8
_VERSION: Final = 0
_HEAD: Final = Struct(">BBBiiIiq")
_HALF: Final = Struct(">qiii")
_DECISION: Final = Struct(">qqii")


class HalfRecord(NamedTuple):
    """A half message. `offset_delta`: its place in the producer's batch. `body`: its bytes from the key's length on."""

    timestamp_ms: int
    offset_delta: int
    check_id: str
    body: Buffer


class PlacedDecision(NamedTuple):
    """A decision about the half message `offset`. `offset_delta`: the decision's own place in the batch behind.

    `due_ms`: if it commits, the message is delivered in order of this due time.
    """

    offset: int
    due_ms: int
    offset_delta: int
    outcome: Outcome


class HalfEntry(NamedTuple):
    timestamp_ms: int
    offset_delta: int
    check_id: str
    body_start: int
    body_bytes: int


@dataclass(frozen=True, slots=True)
class HalfAnnouncement:
    """A decoded announcement. `now_ms`: the owner's clock when it was made. `distance`: to the offset of the batch behind."""

    behind: NamedBatch
    distance: int
    now_ms: int
    halves: tuple[HalfEntry, ...]
    decisions: tuple[PlacedDecision, ...]
    codec: Compression
    packed: Buffer

    def bodies(self) -> memoryview:
        """The decompressed bodies of all half messages, back to back. Raises CorruptRecords, BadCompressedData."""
        length_bytes = sum(half.body_bytes for half in self.halves)
        bodies = memoryview(decompress(self.codec, self.packed, length_bytes))
        if len(bodies) != length_bytes:
            raise CorruptRecords(f"bodies of half messages have {len(bodies)} bytes, their entries say {length_bytes}")
        return bodies


def encode_half(
    halves: Sequence[HalfRecord],
    decisions: Sequence[PlacedDecision],
    behind: NamedBatch,
    now_ms: int,
    *,
    distance: int = 1,
    codec: Compression = Compression.NONE,
    level: int | None = None,
) -> bytearray:
    """The control batch that announces these half messages and decisions."""
    ids = [half.check_id.encode() for half in halves]
    bodies = b"".join(half.body for half in halves)
    parts = [_HEAD.pack(_VERSION, codec, distance, len(halves), len(decisions), *behind, now_ms)]
    parts += (
        _HALF.pack(half.timestamp_ms, half.offset_delta, len(check_id), len(half.body))
        for half, check_id in zip(halves, ids, strict=True)
    )
    parts += (_DECISION.pack(*decision) for decision in decisions)
    parts += ids
    parts.append(bodies if codec is Compression.NONE else bytes(compress(codec, bodies, level)))
    record = Record(own_control_key(OwnControlType.HALF_MESSAGES), b"".join(parts), timestamp_ms=NO_TIMESTAMP_MS)
    return encode_batch((record,), attributes=CONTROL)


def parse_half(batch: Buffer, position: int = 0) -> HalfAnnouncement | None:
    """The announcement in the control batch at `position`; None when it is another kind of control batch.

    Raises CorruptRecords if it contradicts itself, or has a version that this release does not know.
    """
    records = decode_records(batch, position)
    if len(records) != 1 or own_control_type(records[0].key) is not OwnControlType.HALF_MESSAGES:
        return None
    value = records[0].value or b""
    if not value or value[0] != _VERSION:
        raise CorruptRecords(f"an announcement of half messages with version {value[:1].hex() or 'none'}")
    return _parse(value)


def _parse(value: bytes) -> HalfAnnouncement:
    if len(value) < _HEAD.size:
        raise CorruptRecords(f"half messages in {len(value)} bytes")
    _, codec, distance, half_count, decision_count, crc, last_offset_delta, now_ms = _HEAD.unpack_from(value)
    decisions_start = _HEAD.size + half_count * _HALF.size
    ids_start = decisions_start + decision_count * _DECISION.size
    if (
        codec > Compression.ZSTD
        or not 1 <= distance <= DISTANCE_MAX
        or half_count < 0
        or decision_count < 0
        or not half_count + decision_count
        or ids_start > len(value)
    ):
        raise CorruptRecords(f"{half_count} half messages and {decision_count} decisions in {len(value)} bytes")
    rows = tuple(_HALF.iter_unpack(value[_HEAD.size : decisions_start]))
    halves, bodies_start = _halves(value, rows, ids_start, last_offset_delta)
    decisions = _decisions(value[decisions_start:ids_start], last_offset_delta)
    behind = NamedBatch(crc, last_offset_delta)
    packed = memoryview(value)[bodies_start:]
    return HalfAnnouncement(behind, distance, now_ms, halves, decisions, Compression(codec), packed)


def _halves(
    value: bytes, rows: tuple[tuple[int, int, int, int], ...], ids_start: int, last_offset_delta: int
) -> tuple[tuple[HalfEntry, ...], int]:
    """(the half messages, the position behind their check ids, where the bodies begin). Raises CorruptRecords."""
    halves: list[HalfEntry] = []
    place, previous = ids_start, -1
    starts = accumulate((row[3] for row in rows), initial=0)
    for (timestamp_ms, offset_delta, id_bytes, body_bytes), body_start in zip(rows, starts, strict=False):
        if not previous < offset_delta <= last_offset_delta or body_bytes < 0:
            raise CorruptRecords("half messages that are out of order")
        if not 0 < id_bytes <= CHECK_ID_BYTES_MAX or place + id_bytes > len(value):
            raise CorruptRecords(f"a check id of {id_bytes} bytes")
        previous = offset_delta
        try:
            check_id = value[place : place + id_bytes].decode()
        except UnicodeDecodeError as error:
            raise CorruptRecords("a check id that is not UTF-8") from error
        halves.append(HalfEntry(timestamp_ms, offset_delta, check_id, body_start, body_bytes))
        place += id_bytes
    if sum(half.body_bytes for half in halves) > DECOMPRESSED_BYTES_MAX:
        raise CorruptRecords("half messages of more bytes than a batch may have")
    return tuple(halves), place


def _decisions(rows: bytes, last_offset_delta: int) -> tuple[PlacedDecision, ...]:
    decisions: list[PlacedDecision] = []
    previous = -1
    for offset, due_ms, offset_delta, outcome in _DECISION.iter_unpack(rows):
        if not previous < offset_delta <= last_offset_delta or offset < 0 or due_ms < 0:
            raise CorruptRecords("decisions that are out of order")
        if not 0 <= outcome <= Outcome.GIVEN_UP:
            raise CorruptRecords(f"a decision of kind {outcome}")
        previous = offset_delta
        decisions.append(PlacedDecision(offset, due_ms, offset_delta, Outcome(outcome)))
    return tuple(decisions)
