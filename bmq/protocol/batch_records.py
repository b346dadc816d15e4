"""The records inside of record batches v2, decoded and encoded one by one.

For state logs, timestamp look-ups, control batches and tests, never per produce: produced records are read by
bmq/records, and compaction copies their bytes. Source: Kafka's DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bmq.protocol.compression import DECOMPRESSED_BYTES_MAX, Buffer, Compression, compress, decompress
from bmq.protocol.record_batch import (
    HEADER_BYTES,
    MAGIC_2,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP_MS,
    TRANSACTIONAL,
    BatchHeader,
    CorruptRecords,
    TimestampType,
    assemble_batch,
)


class Record(NamedTuple):
    """One record. `offset` is filled by decoding; encoding counts up from the base offset unless told to keep it."""

    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int = NO_TIMESTAMP_MS
    offset: int = 0


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
    compression: Compression = Compression.NONE,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
) -> bytearray:
    """One whole batch, checksum included. Offsets count up from `base_offset`.

    `attributes`: TRANSACTIONAL, CONTROL and LOG_APPEND_TIME, or several of them.
    """
    first_timestamp_ms = records[0].timestamp_ms if records else NO_TIMESTAMP_MS
    body = bytearray()
    for index, record in enumerate(records):
        append_record(body, record, index, record.timestamp_ms - first_timestamp_ms)
    header = BatchHeader(
        base_offset=base_offset,
        length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC_2,
        crc=0,
        attributes=compression | attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp_ms=first_timestamp_ms,
        max_timestamp_ms=max((record.timestamp_ms for record in records), default=NO_TIMESTAMP_MS),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    return assemble_batch(header, body if compression is Compression.NONE else compress(compression, body, None))


def encode_records(records: Sequence[Record], first_delta: int) -> bytearray:
    """The bytes of these records in a batch, from this offset delta on, all at the batch's own timestamp."""
    body = bytearray()
    for delta, record in enumerate(records, first_delta):
        append_record(body, record, delta, 0)
    return body


def encode_batch_of(
    body: Buffer,
    record_count: int,
    timestamp_ms: int,
    *,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    is_transactional: bool = False,
) -> bytearray:
    """As encode_batch, for records already encoded as by `encode_records`."""
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC_2,
        crc=0,
        attributes=TRANSACTIONAL if is_transactional else 0,
        last_offset_delta=record_count - 1,
        base_timestamp_ms=timestamp_ms,
        max_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=record_count,
    )
    return assemble_batch(header, body)


def decode_records(
    batch: Buffer, position: int = 0, *, length_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> tuple[Record, ...]:
    """The records of the one batch at `position`, whose checksum the caller has verified or does not need.

    Raises CorruptRecords (also for offsets that do not grow), BadCompressedData (also above `length_bytes_max`
    decompressed), UnknownCompression.
    """
    return tuple(iterate_records(batch, position, length_bytes_max=length_bytes_max))


def iterate_records(
    batch: Buffer, position: int = 0, *, length_bytes_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """As decode_records, one at a time, for callers that stop early (time look-ups). Raises while iterating."""
    header = BatchHeader.parse(batch, position)
    end = position + header.size_bytes
    if end > len(batch):
        raise CorruptRecords(f"a record batch of {header.size_bytes} bytes runs past the end of the buffer")
    body = memoryview(batch)[position + HEADER_BYTES : end]
    data = bytes(decompress(header.compression, body, length_bytes_max))
    append_time = header.max_timestamp_ms if header.timestamp_type is TimestampType.LOG_APPEND_TIME else None
    place = 0
    previous_offset = header.base_offset - 1
    try:
        for _ in range(header.record_count):
            length, start = _varint(data, place)
            place = start + length
            if length < 0 or place > len(data):
                raise CorruptRecords(f"a record of {length} bytes runs past the end of its batch")
            record, stop = _record_at(data, start, header, append_time)
            if stop != place:
                raise CorruptRecords(f"a record of {length} bytes ends after {stop - start}")
            if not previous_offset < record.offset <= header.last_offset:
                raise CorruptRecords(
                    f"offset {record.offset} behind {previous_offset} in a batch to {header.last_offset}"
                )
            previous_offset = record.offset
            yield record
    except IndexError as error:
        raise CorruptRecords("a record runs past the end of its batch") from error
    if place != len(data):
        raise CorruptRecords(f"{len(data) - place} bytes are left behind the last record of a batch")


def _record_at(data: bytes, place: int, header: BatchHeader, append_time_ms: int | None) -> tuple[Record, int]:
    timestamp_delta, place = _varint(data, place + 1)  # the first byte, record attributes, is unused
    offset_delta, place = _varint(data, place)
    key, place = _nullable_bytes(data, place)
    value, place = _nullable_bytes(data, place)
    header_count, place = _varint(data, place)
    headers: list[tuple[str, bytes | None]] = []
    if header_count < 0:
        raise CorruptRecords(f"a record with {header_count} headers")
    for _ in range(header_count):
        name, place = _nullable_bytes(data, place)
        if name is None:
            raise CorruptRecords("a record header without a key")
        content, place = _nullable_bytes(data, place)
        # librdkafka allows header keys that are not UTF-8; this way encoding gives the same bytes again.
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    timestamp_ms = header.base_timestamp_ms + timestamp_delta if append_time_ms is None else append_time_ms
    return Record(key, value, tuple(headers), timestamp_ms, header.base_offset + offset_delta), place


def _nullable_bytes(data: bytes, place: int) -> tuple[bytes | None, int]:
    length, place = _varint(data, place)
    if length < 0:
        if length != -1:
            raise CorruptRecords(f"a length of {length} bytes in a record")
        return None, place
    end = place + length
    if end > len(data):
        raise CorruptRecords(f"a field of {length} bytes runs past the end of its record")
    return data[place:end], end


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits. Raises IndexError at the end of the data."""
    byte = data[place]
    place += 1
    value = byte & 127
    shift = 7
    while byte > 127:
        if shift > 63:
            raise CorruptRecords("a varint of a record is longer than ten bytes")
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), place


def _append_varint(out: bytearray, value: int) -> None:
    value = (value << 1) ^ (value >> 63)
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def varint_bytes(value: int) -> bytes:
    """The zigzag varint of a record's lengths and deltas."""
    out = bytearray()
    _append_varint(out, value)
    return bytes(out)


def _append_nullable(out: bytearray, data: Buffer | None) -> None:
    if data is None:
        out.append(1)  # -1
    else:
        _append_varint(out, len(data))
        out += data


def append_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta_ms: int) -> None:
    """Append the bytes of one record of an uncompressed batch."""
    body = bytearray(1)
    _append_varint(body, timestamp_delta_ms)
    _append_varint(body, offset_delta)
    _append_nullable(body, record.key)
    _append_nullable(body, record.value)
    _append_varint(body, len(record.headers))
    for name, content in record.headers:
        _append_nullable(body, name.encode("utf-8", "surrogateescape"))
        _append_nullable(body, content)
    _append_varint(out, len(body))
    out += body
