"""Makes the batch of delivered records out of held ones. Pure.

A delivered record has the key, the value and the headers of the produced one, and behind these: `bmq-timer-offset` (its
name), `bmq-timer-due` and `bmq-timer-created` (when it was due, and its own time, in ms). Its timestamp is that of delivery,
so that retention counts from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from bmq.protocol.batch_records import encode_batch, encode_batch_of, varint_bytes
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import BatchHeader, CorruptRecords, assemble_batch
from bmq.records.records_twin import Damage, append_varint, varint

OFFSET_HEADER: Final = b"bmq-timer-offset"
DUE_HEADER: Final = b"bmq-timer-due"
CREATED_HEADER: Final = b"bmq-timer-created"
_ADDED: Final = 3


class DueRecord(NamedTuple):
    """`offset`: its name. `body`: its bytes from the length of its key on.

    `is_cancellation`: of the record with this name and due time; the rest means nothing then.
    """

    offset: int
    due_ms: int
    created_ms: int
    body: Buffer
    is_cancellation: bool = False


def delivered_batch(records: Sequence[DueRecord], now_ms: int) -> bytearray:
    """One uncompressed batch, in the order given; with one offset and no time, if there are no records. Raises CorruptRecords
    for a body that is no record's.
    """
    if not records:
        empty = BatchHeader.parse(encode_batch(()))
        return assemble_batch(empty._replace(last_offset_delta=0), b"")
    out = bytearray()
    for delta, record in enumerate(records):
        _append(out, record, delta)
    return encode_batch_of(out, len(records), now_ms)


def _append(out: bytearray, record: DueRecord, delta: int) -> None:
    body = record.body
    try:
        count_start = _behind_field(body, _behind_field(body, 0))
        count, headers_start = varint(body, count_start, len(body))
    except Damage as error:
        raise CorruptRecords(f"a held record: {error}") from error
    data = bytearray(b"\0\0")  # attributes, and no time behind the batch's
    append_varint(data, delta)
    data += body[:count_start]
    append_varint(data, count + _ADDED)
    data += body[headers_start:]
    for name, number in (
        (OFFSET_HEADER, record.offset),
        (DUE_HEADER, record.due_ms),
        (CREATED_HEADER, record.created_ms),
    ):
        value = b"%d" % number
        data += varint_bytes(len(name)) + name + varint_bytes(len(value)) + value
    append_varint(out, len(data))
    out += data


def _behind_field(body: Buffer, place: int) -> int:
    length, place = varint(body, place, len(body))
    if length > len(body) - place:
        raise CorruptRecords("a held record whose field runs past its end")
    return place + max(length, 0)
