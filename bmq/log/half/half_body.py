"""Makes records out of the bodies of half messages (a record's bytes from its key's length on). Pure."""

from __future__ import annotations

from typing import Final

from bmq.log.half.half_headers import OFFSET
from bmq.protocol.batch_records import Record, decode_records, encode_batch_of, varint_bytes
from bmq.protocol.compression import Buffer
from bmq.protocol.record_batch import CorruptRecords
from bmq.records.records_twin import Damage, append_varint, varint

_FIRST: Final = b"\0\0\0"  # no attributes, the batch's time, and its first offset


def with_offset(body: Buffer, offset: int) -> bytes:
    """The body with one more header, `bmq-half-offset`. Raises CorruptRecords for a body that is not a record's."""
    try:
        place = 0
        for _ in ("key", "value"):
            length, place = varint(body, place, len(body))
            if length > len(body) - place:
                raise CorruptRecords("a half message whose field runs past its end")
            place += max(length, 0)
        count, headers_start = varint(body, place, len(body))
    except Damage as error:
        raise CorruptRecords(f"a half message: {error}") from error
    data = bytearray(body[:place])
    append_varint(data, count + 1)
    data += body[headers_start:]
    value = b"%d" % offset
    data += varint_bytes(len(OFFSET)) + OFFSET + varint_bytes(len(value)) + value
    return bytes(data)


def record_of(body: Buffer, timestamp_ms: int) -> Record:
    """The record with this body and timestamp. Raises CorruptRecords."""
    out = bytearray()
    append_varint(out, len(_FIRST) + len(body))
    out += _FIRST
    out += body
    return decode_records(encode_batch_of(out, 1, timestamp_ms))[0]
