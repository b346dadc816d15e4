"""Record batches v2 (magic 2): the 61-byte header, the checksum, and the records, for the few callers that open them.

The fetch path reads only headers, and produced records are read by bmq/records: `batches` walks back-to-back batches with
bounds checking, `verify_crc` checks one, `rewrite` sets base offset and leader epoch (both are outside the checksum).
Records are decoded and encoded one by one for state logs, compaction, timestamp look-ups and tests, never per produce.
Source: Kafka's DefaultRecordBatch and DefaultRecord, KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple, Self

from crc32c import crc32c

from bmq.protocol.compression import (
    Buffer,
    Compression,
    UnknownCompression,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

HEADER_BYTES: Final = 61
LENGTH_OVERHEAD_BYTES: Final = 12  # base offset and length themselves are not counted by the length field
MAGIC_2: Final = 2
NO_TIMESTAMP_MS: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

_HEADER: Final = Struct(">qiibIhiqqqhii")
_new_tuple: Final = tuple.__new__
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_UINT32: Final = Struct(">I")
_INT64: Final = Struct(">q")
_OLD_MESSAGE_BYTES_MIN: Final = 14  # of formats 0 and 1, not counting offset and length
_LENGTH_POSITION: Final = 8
_LEADER_EPOCH_POSITION: Final = 12
_MAGIC_POSITION: Final = 16
_CRC_POSITION: Final = 17
_PRODUCER: Final = Struct(">qhi")
_PRODUCER_POSITION: Final = 43
_ATTRIBUTES_POSITION: Final = 21
_MAX_TIMESTAMP_POSITION: Final = 35

CHECKSUMMED_POSITION: Final = _ATTRIBUTES_POSITION
"""The checksum covers everything from here on."""
COMPRESSION_MASK: Final = 0b111
"""The attributes bits that number the codec; 0: not compressed."""
LOG_APPEND_TIME: Final = 1 << 3
"""The attributes bit of batches whose records all have the batch's greatest time."""
TRANSACTIONAL: Final = 1 << 4
"""The attributes bit of transactional batches."""
CONTROL: Final = 1 << 5
_DELETE_HORIZON: Final = 1 << 6


class CorruptRecords(BmqError):
    """Bytes that are not a whole record batch, or a checksum that does not match."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecords(BmqError):
    """A whole batch whose fields contradict each other, or that a client may not write (Kafka's LogValidator)."""

    code = ErrorCode.INVALID_RECORD


class UnsupportedMagic(InvalidRecords):
    """A message of format 0 or 1; Produce 3 and later carry format 2 only (Kafka's ProduceRequest.validateRecords)."""


class TimestampType(IntEnum):
    """The meaning of a batch's timestamps."""

    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of one batch, as in the bytes. Times are milliseconds since 1970; -1 means none."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def parse(cls, buffer: Buffer, position: int = 0) -> Self:
        """The header at `position`; only the header has to be in the buffer, the records may follow or not.

        Raises CorruptRecords (too short, impossible length, unknown magic), UnsupportedMagic (format 0 or 1).
        """
        try:
            header = tuple.__new__(cls, _HEADER.unpack_from(buffer, position))  # as _make, without its Python
        except struct_error as error:
            _refuse_old_format(buffer, position)
            raise CorruptRecords(f"{len(buffer) - position} bytes are too few for a record batch") from error
        if header.magic != MAGIC_2:
            _refuse_old_format(buffer, position)
            raise CorruptRecords(f"a record batch with magic {header.magic}")
        if header.length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
            raise CorruptRecords(f"a record batch with length {header.length}, shorter than its header")
        return header

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, header included."""
        return self.length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        """The offset that follows the batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> Compression:
        """Raises UnknownCompression."""
        number = self.attributes & COMPRESSION_MASK
        if number > Compression.ZSTD:
            raise UnknownCompression(f"compression codec {number} does not exist")
        return Compression(number)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.attributes & LOG_APPEND_TIME else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL != 0

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def last_sequence(self) -> int:
        """The last record's sequence, for idempotent producers; sequences wrap from 2**31 - 1 to 0."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFF_FFFF

    @property
    def delete_horizon_ms(self) -> int | None:
        """When compaction may drop the batch's tombstones (KIP-534); the base timestamp carries it."""
        return self.base_timestamp_ms if self.attributes & _DELETE_HORIZON else None


def _refuse_old_format(buffer: Buffer, position: int) -> None:
    """Raise UnsupportedMagic if a message of format 0 or 1 is at `position`; length and magic are in the same places.

    The length is checked first, as in Kafka: zeros are not a message of format 0.
    """
    if 0 <= position <= len(buffer) - _CRC_POSITION:
        (length,) = _INT32.unpack_from(buffer, position + _LENGTH_POSITION)
        if length >= _OLD_MESSAGE_BYTES_MIN and buffer[position + _MAGIC_POSITION] in (0, 1):
            raise UnsupportedMagic("message formats 0 and 1 are not served, only format 2")


def parsed_header(records: Buffer) -> BatchHeader | None:
    """As BatchHeader.parse at the buffer's start; None where that raises."""
    try:
        header = _new_tuple(BatchHeader, _HEADER.unpack_from(records))  # as _make, without its Python
    except struct_error:
        return None
    return header if header[3] == MAGIC_2 and header[1] >= HEADER_BYTES - LENGTH_OVERHEAD_BYTES else None


def producer_of(records: Buffer) -> tuple[int, int, int] | None:
    """(producer id, producer epoch, base sequence) of the first batch; None without a number, or for other formats."""
    if len(records) < HEADER_BYTES or records[_MAGIC_POSITION] != MAGIC_2:
        return None
    producer_id, producer_epoch, base_sequence = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
    return (producer_id, producer_epoch, base_sequence) if producer_id >= 0 and base_sequence >= 0 else None


def transactional_producer_of(records: Buffer) -> int | None:
    """The producer id of the first batch, if that is a whole one and transactional."""
    length = len(records)
    if length < HEADER_BYTES or not records[_ATTRIBUTES_POSITION + 1] & TRANSACTIONAL:
        return None
    size: int = _INT32.unpack_from(records, _LENGTH_POSITION)[0] + LENGTH_OVERHEAD_BYTES
    if records[_MAGIC_POSITION] != MAGIC_2 or size > length:
        return None
    producer_id: int = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)[0]
    return producer_id


def own_base_offset_of(records: Buffer) -> int:
    """The base offset that stands in the first batch; 0 for other formats, and when there is no room for a header."""
    if len(records) < HEADER_BYTES or records[_MAGIC_POSITION] != MAGIC_2:
        return 0
    base_offset: int = _INT64.unpack_from(records)[0]
    return base_offset


def batches(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each of the whole batches that lie back to back from `position` to the buffer's end.

    Raises CorruptRecords for a batch that runs past the end, and the errors of BatchHeader.parse. Checksums and records
    are not checked. An empty buffer holds no batches.
    """
    end = len(buffer)
    while position < end:
        header = BatchHeader.parse(buffer, position)
        size = header[1] + LENGTH_OVERHEAD_BYTES
        if position + size > end:
            raise CorruptRecords(f"a record batch of {size} bytes runs past the end, {end - position} are there")
        yield position, header
        position += size


def is_cut_short(buffer: Buffer, position: int) -> bool:
    """Whether what is from `position` on is the beginning of a batch of any format, as Kafka's reader sees it.

    Raises CorruptRecords for what can be no beginning.
    """
    there = len(buffer) - position
    if there < LENGTH_OVERHEAD_BYTES:
        return True
    length: int = _INT32.unpack_from(buffer, position + _LENGTH_POSITION)[0]
    if length < _OLD_MESSAGE_BYTES_MIN:
        raise CorruptRecords(f"a record batch with length {length}, shorter than any header")
    if there <= _MAGIC_POSITION:
        return True
    if buffer[position + _MAGIC_POSITION] > MAGIC_2:
        raise CorruptRecords(f"a record batch with magic {buffer[position + _MAGIC_POSITION]}")
    return there < length + LENGTH_OVERHEAD_BYTES


def verify_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise CorruptRecords unless the whole batch at `position` is there and its CRC32C matches. Copies nothing."""
    end = position + header.length + LENGTH_OVERHEAD_BYTES
    if end > len(buffer):
        raise CorruptRecords(f"a record batch of {header.size_bytes} bytes runs past the end of the buffer")
    computed = crc32c(memoryview(buffer)[position + _ATTRIBUTES_POSITION : end])
    if computed != header.crc:
        raise CorruptRecords(f"record batch checksum {header.crc:#010x} does not match its bytes ({computed:#010x})")


def rewrite(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Set a batch's offset and leader epoch in the buffer itself. The checksum does not cover these two fields."""
    _INT64.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + _LEADER_EPOCH_POSITION, leader_epoch)


def is_zstd(buffer: Buffer) -> bool:
    """Whether the header at the buffer's start says so; False when there is no room for one."""
    return len(buffer) >= HEADER_BYTES and buffer[_ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK == Compression.ZSTD


def is_stamped(buffer: Buffer) -> bool:
    """Whether the header at the buffer's start says LogAppendTime; False when there is no room for one."""
    return len(buffer) >= HEADER_BYTES and buffer[_ATTRIBUTES_POSITION + 1] & LOG_APPEND_TIME != 0


def leader_epoch_in(buffer: Buffer) -> int:
    """The leader epoch in the header at the buffer's start; -1 when there is no room for one."""
    if len(buffer) < _MAGIC_POSITION:
        return NO_LEADER_EPOCH
    epoch: int = _INT32.unpack_from(buffer, _LEADER_EPOCH_POSITION)[0]
    return epoch


def put_leader_epoch(buffer: bytearray | memoryview, leader_epoch: int) -> None:
    """Write it into the header at the buffer's start, if there is room; the checksum does not cover it."""
    if len(buffer) >= _MAGIC_POSITION:
        _INT32.pack_into(buffer, _LEADER_EPOCH_POSITION, leader_epoch)


def rewrite_log_append_time(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, timestamp_ms: int
) -> BatchHeader:
    """Stamp a batch with the broker's time (message.timestamp.type=LogAppendTime) and renew its checksum.

    Every reader then gives all its records this timestamp; the base timestamp stays. Returns the new header.
    """
    return write_times(buffer, position, with_log_append_time(buffer, position, header, timestamp_ms))


def rewrite_max_timestamp(
    buffer: bytearray | memoryview, position: int, header: BatchHeader, timestamp_ms: int
) -> BatchHeader:
    """Set a batch's greatest time and renew its checksum. Returns the new header."""
    return write_times(buffer, position, with_max_timestamp(buffer, position, header, timestamp_ms))


def clear_log_append_time(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> BatchHeader:
    """Give a batch's records their own timestamps again and renew its checksum. Returns the new header."""
    return write_times(buffer, position, without_log_append_time(buffer, position, header))


def with_log_append_time(buffer: Buffer, position: int, header: BatchHeader, timestamp_ms: int) -> BatchHeader:
    """The header that `rewrite_log_append_time` gives the batch, which stays as it is."""
    attributes = header.attributes | LOG_APPEND_TIME
    return _with_checksum(buffer, position, header._replace(attributes=attributes, max_timestamp_ms=timestamp_ms))


def with_max_timestamp(buffer: Buffer, position: int, header: BatchHeader, timestamp_ms: int) -> BatchHeader:
    """The header that `rewrite_max_timestamp` gives the batch, which stays as it is."""
    return _with_checksum(buffer, position, header._replace(max_timestamp_ms=timestamp_ms))


def without_log_append_time(buffer: Buffer, position: int, header: BatchHeader) -> BatchHeader:
    """The header that `clear_log_append_time` gives the batch, which stays as it is."""
    return _with_checksum(buffer, position, header._replace(attributes=header.attributes & ~LOG_APPEND_TIME))


def write_times(buffer: bytearray | memoryview, position: int, header: BatchHeader) -> BatchHeader:
    """Write the attributes, the greatest time and the checksum of `header` into its batch. Returns `header`."""
    _INT16.pack_into(buffer, position + _ATTRIBUTES_POSITION, header.attributes)
    _INT64.pack_into(buffer, position + _MAX_TIMESTAMP_POSITION, header.max_timestamp_ms)
    _UINT32.pack_into(buffer, position + _CRC_POSITION, header.crc)
    return header


def _with_checksum(buffer: Buffer, position: int, header: BatchHeader) -> BatchHeader:
    """With the checksum of a batch that has these attributes and this greatest time; all the rest is that of the bytes."""
    start = position + _ATTRIBUTES_POSITION
    head = bytearray(memoryview(buffer)[start : position + HEADER_BYTES])
    _INT16.pack_into(head, 0, header.attributes)
    _INT64.pack_into(head, _MAX_TIMESTAMP_POSITION - _ATTRIBUTES_POSITION, header.max_timestamp_ms)
    body = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    return header._replace(crc=crc32c(body, crc32c(head)))


def validate_records_count(header: BatchHeader) -> None:
    """Raise InvalidRecords unless record count and offsets agree, without opening the batch (Kafka's LogValidator).

    True of every batch a producer builds; a compacted batch may hold fewer records than offsets.
    """
    if header.record_count <= 0:
        raise InvalidRecords(f"a record batch says it holds {header.record_count} records")
    if header.last_offset_delta + 1 != header.record_count:
        raise InvalidRecords(
            f"a record batch of {header.record_count} records says its last offset delta is {header.last_offset_delta}"
        )


def validate_client_batch(header: BatchHeader) -> None:
    """All cheap checks on what a client may write: counts, no control records, sequence and codec numbers.

    Raises InvalidRecords, UnknownCompression. The log checks checksum, size limit, timestamps and producer state.
    """
    validate_records_count(header)
    attributes = header.attributes
    if attributes & CONTROL:
        raise InvalidRecords("clients may not write control records")
    if attributes & COMPRESSION_MASK > Compression.ZSTD:
        raise UnknownCompression(f"compression codec {attributes & COMPRESSION_MASK} does not exist")
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRecords(
                f"sequence {header.base_sequence}, epoch {header.producer_epoch} of producer id {header.producer_id}"
            )
    elif attributes & TRANSACTIONAL:
        raise InvalidRecords("a transactional record batch without a producer id")


def assemble_batch(header: BatchHeader, data: Buffer) -> bytearray:
    """A whole batch around `data`, records already in the header's codec. Fills in length and checksum."""
    batch = bytearray(HEADER_BYTES)
    batch += data
    _HEADER.pack_into(batch, 0, *header._replace(length=len(batch) - LENGTH_OVERHEAD_BYTES, magic=MAGIC_2, crc=0))
    _UINT32.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[_ATTRIBUTES_POSITION:]))
    return batch
