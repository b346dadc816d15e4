"""Checks a produce before it gets an offset: size, format, checksum, every record, keys, times, codec. Pure.

Every record of every batch is read, by bmq/records; compressed ones too, unless the topic switches that off. The header's
greatest time becomes that of the records. Opening may take long: `validate` does it as far as its room goes, in one piece;
`opening` takes any batch, in parts.
Source: Kafka's LogValidator and UnifiedLog.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NoReturn

from crc32c import crc32c

from bmq.broker.opening_room import OpeningBudget, Room, TooMuchWork
from bmq.broker.record_errors import NAMED_MAX, refuse_records
from bmq.log.config import LogConfig
from bmq.protocol.compression import (
    DECOMPRESSED_BYTES_MAX,
    BadCompressedData,
    Compression,
    PartsCompressor,
    begins_as,
    compress,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import (
    CHECKSUMMED_POSITION,
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_MS,
    BatchHeader,
    InvalidRecords,
    assemble_batch,
    batches,
    is_cut_short,
    validate_client_batch,
    validate_records_count,
    verify_crc,
    with_log_append_time,
    with_max_timestamp,
    without_log_append_time,
    write_times,
)
from bmq.records.body_opening import BodyTooLong, open_body
from bmq.records.body_parts import body_parts
from bmq.records.buffers import Buffer
from bmq.records.record_check import BatchCheck, Result, Rules, reason_of
from bmq.records.record_check_choice import record_check

RECORD_BYTES_MIN: Final = 7
"""A length, attributes, two deltas, two lengths and the number of headers, a byte each."""
UNCOUNTED_NS: Final = 20_000
"""A batch whose records take less to read is not counted: its other checks take as long."""
DECOMPRESSION_NS_PER_BYTE: Final = 2

_UNUSUAL: Final = ~(COMPRESSION_MASK | LOG_APPEND_TIME) | 0b100
"""Attributes with which a batch is looked at more closely."""

ValidBatch = tuple[memoryview, BatchHeader]
Opening = Generator[None, None, ValidBatch]
"""Yields after each part of the body; returns the batch, or raises as `BatchValidator.validate`. The batch's bytes are not
written to: its header may have other times than they, which `write_times` puts in."""

_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class NotOneBatch(InvalidRecords):
    """The records of a partition are not one whole batch: Kafka refuses them before any log sees them."""


class BatchValidator:
    """The checks under one topic's settings, for one thread. Made anew when they change.

    `partition_name`: for people, "topic-0".
    """

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_check",
        "_codec",
        "_compresses",
        "_config",
        "_is_append_time",
        "_message_bytes_max",
        "_opens",
        "_partition_name",
        "_segment_bytes",
        "_uncounted_records",
    )

    def __init__(self, config: LogConfig, partition_name: str = "") -> None:
        self._config = config
        self._partition_name = partition_name
        self._message_bytes_max = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._is_append_time = config.message_timestamp_type_is_append_time
        self._codec = _CODECS.get(config.compression_type)
        self._compresses = self._codec is not None and self._codec is not Compression.NONE
        is_compacted = "compact" in config.cleanup_policy
        self._opens = config.validates_compressed or is_compacted
        rules = Rules.NEEDS_KEY if is_compacted else Rules.NONE
        if self._is_append_time:
            rules |= Rules.IS_APPEND_TIME
        self._check: BatchCheck = record_check(rules, self._before_max_ms, self._after_max_ms)
        self._uncounted_records = UNCOUNTED_NS // self._check.costs_per_record_ns

    def for_another_thread(self) -> BatchValidator:
        return BatchValidator(self._config, self._partition_name)

    def validate(self, records: memoryview, header: BatchHeader | None, now_ms: int, room: Room) -> ValidBatch:
        """The one batch of a client's produce, perhaps rewritten. The buffer is writable. `header`: as in it, if it was read.

        Raises BmqError with the code for the client, and TooMuchWork, after which the same may be tried in a larger room.
        The beginning of another batch behind it is cut off without a word, as Kafka's reader does.
        """
        if header is None:
            header = BatchHeader.parse(records)
        came = header
        _, length, _, _, crc, attributes, last_offset_delta, _, _, producer_id, epoch, sequence, record_count = header
        size = length + LENGTH_OVERHEAD_BYTES
        if (
            size != len(records)
            or size > self._message_bytes_max
            or attributes & _UNUSUAL
            or last_offset_delta != record_count - 1
            or record_count <= 0
            or (producer_id >= 0 and (sequence < 0 or epoch < 0))
            or crc32c(records[CHECKSUMMED_POSITION:]) != crc
        ):
            records, header = self._whole_batch(records, header)
        if attributes & COMPRESSION_MASK or self._compresses:
            records, header = self._opened(records, header, now_ms, room)
        else:
            if record_count > self._uncounted_records:
                room.take(self._reading_ns(header, size))
            result = self._check.batch(records, now_ms)
            if result:
                header = self._corrected(result, records, header, now_ms)
        if self._is_append_time or attributes & LOG_APPEND_TIME or len(records) > self._segment_bytes:
            records, header = self._stamped(records, header, now_ms)
        if header is not came:
            write_times(records, 0, header)
        return records, header

    def opening(self, records: memoryview, now_ms: int, budget: OpeningBudget, *, is_last: bool = True) -> Opening:
        """As `validate`, in parts of which each takes a bounded time and buffer. The budget is the whole batch's.

        `is_last`: there is no larger budget, so what is beyond it is refused, in place of TooMuchWork. Nothing is written to
        `records`, so that they can be answered and sent on while another thread is in here.
        """
        records, header = self._whole_batch(records, BatchHeader.parse(records))
        target_codec = header.compression if self._codec is None else self._codec
        if target_codec is not header.compression or not self._is_believed(records, header, now_ms):
            try:
                records, header = yield from self._opened_in_parts(records, header, now_ms, budget, target_codec)
            except TooMuchWork:
                if not is_last:
                    raise
                # The code has producers send the batch again in two halves.
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE, "decompressing the records takes more work than one batch may"
                ) from None
        return self._stamped(records, header, now_ms)

    def validate_internal(self, records: memoryview) -> list[ValidBatch]:
        """The batches of the server's own append: only checks that they are whole and countable. Raises BmqError."""
        valid = []
        for position, header in batches(records):
            validate_records_count(header)
            valid.append((records[position : position + header.size_bytes], header))
        if not valid:
            raise InvalidRecords("an append without a record batch")
        return valid

    def _whole_batch(self, records: memoryview, header: BatchHeader) -> ValidBatch:
        """The one batch, after the checks that need none of its records."""
        _, length, _, _, crc, attributes, last_offset_delta, _, _, producer_id, epoch, sequence, record_count = header
        size = length + LENGTH_OVERHEAD_BYTES
        if size != len(records):
            records = _one_batch(records, size)
        if size > self._message_bytes_max:
            self._refuse_size(size)
        if crc32c(records[CHECKSUMMED_POSITION:]) != crc:
            verify_crc(records, 0, header)
        if (
            attributes & _UNUSUAL
            or last_offset_delta != record_count - 1
            or record_count <= 0
            or (producer_id >= 0 and (sequence < 0 or epoch < 0))
        ):
            validate_client_batch(header)
        return records, header

    def _stamped(self, records: memoryview, header: BatchHeader, now_ms: int) -> ValidBatch:
        """With the time that the topic wants; and small enough for a segment."""
        if self._is_append_time:
            header = with_log_append_time(records, 0, header, now_ms)
        elif header.attributes & LOG_APPEND_TIME:
            header = without_log_append_time(records, 0, header)
        if header.length + LENGTH_OVERHEAD_BYTES > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a record batch of {header.size_bytes} bytes does not fit into a segment of {self._segment_bytes}",
            )
        return records, header

    def _is_believed(self, records: memoryview, header: BatchHeader, now_ms: int) -> bool:
        """Whether the topic has its compressed batches stored unread. Raises KafkaError if the data is of another codec."""
        codec = header.compression
        if codec is Compression.NONE or self._opens or self._is_suspicious(header, now_ms):
            return False
        if not begins_as(codec, records[HEADER_BYTES : HEADER_BYTES + 4]):
            _refuse_stream(f"the records are not compressed by {codec.name.lower()}")
        return True

    def _opened(self, records: memoryview, header: BatchHeader, now_ms: int, room: Room) -> ValidBatch:
        """As validate, for a batch that is compressed, or will be."""
        codec = header.compression
        target_codec = codec if self._codec is None else self._codec
        if codec is target_codec and self._is_believed(records, header, now_ms):
            return records, header
        body = self._body(records, header, codec, room)
        result = self._check.opened(records, body, now_ms)
        if result:
            header = self._corrected(result, records, header, now_ms)
        if codec is target_codec:
            return records, header
        return self._again(header, target_codec, compress(target_codec, body, self._config.compression_level))

    def _opened_in_parts(
        self, records: memoryview, header: BatchHeader, now_ms: int, budget: OpeningBudget, target_codec: Compression
    ) -> Opening:
        self._refuse_too_many_records(header)
        check, codec = self._check, header.compression
        compressor = None
        if codec is not target_codec:
            compressor = PartsCompressor(target_codec, self._config.compression_level)
        check.begin(records, now_ms, min(NAMED_MAX, header.record_count))
        result = int(Result.GOES_ON)
        try:
            for part in body_parts(codec, records[HEADER_BYTES:]):
                budget.take(len(part))
                if budget.body_bytes > DECOMPRESSED_BYTES_MAX:
                    raise BodyTooLong(f"decompressed records of more than {DECOMPRESSED_BYTES_MAX} bytes")
                result = check.part(part, is_last=False)
                if result != Result.GOES_ON:
                    break
                if compressor is not None:
                    compressor.add(part)
                    if HEADER_BYTES + compressor.size_bytes > self._message_bytes_max:
                        self._refuse_size(HEADER_BYTES + compressor.size_bytes)
                yield
        except BodyTooLong as error:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
        except BadCompressedData as error:
            # Kafka's code, and not the one of corrupt messages: clients would send the same again.
            _refuse_stream(str(error))
        if result == Result.GOES_ON:
            result = check.part(b"", is_last=True)
        if result != Result.RIGHT:
            header = self._corrected(result, records, header, now_ms)
        return (records, header) if compressor is None else self._again(header, target_codec, compressor.finish())

    def _again(self, header: BatchHeader, codec: Compression, body: Buffer) -> ValidBatch:
        """The batch with its body compressed by another codec.

        The records stay as they are: what their deltas count from stays in the header.
        """
        attributes = header.attributes & ~COMPRESSION_MASK | codec
        again = memoryview(assemble_batch(header._replace(attributes=attributes), body))
        if len(again) > self._message_bytes_max:
            self._refuse_size(len(again))
        return again, BatchHeader.parse(again)

    def _body(self, records: memoryview, header: BatchHeader, codec: Compression, room: Room) -> memoryview:
        data = records[HEADER_BYTES:]
        if codec is Compression.NONE:
            room.take(self._reading_ns(header, len(data)) + len(data) * DECOMPRESSION_NS_PER_BYTE)
            return data
        reserved_ns = len(room.scratch) * DECOMPRESSION_NS_PER_BYTE
        room.take(reserved_ns)
        try:
            length = open_body(codec, data, room.scratch)
        except BodyTooLong as error:
            raise TooMuchWork from error
        except BadCompressedData as error:
            _refuse_stream(str(error))
        room.take(length * DECOMPRESSION_NS_PER_BYTE + self._reading_ns(header, length) - reserved_ns)
        return room.scratch[:length]

    def _reading_ns(self, header: BatchHeader, body_bytes: int) -> int:
        self._refuse_too_many_records(header)
        return min(header.record_count, body_bytes // RECORD_BYTES_MIN) * self._check.costs_per_record_ns

    def _refuse_too_many_records(self, header: BatchHeader) -> None:
        if header.record_count > self._check.records_max:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a batch of {header.record_count} records, {self._check.records_max} are allowed without the kernel",
            )

    def _corrected(self, result: int, records: memoryview, header: BatchHeader, now_ms: int) -> BatchHeader:
        """The header with its records' greatest time. Raises KafkaError and InvalidRecords for any worse result."""
        details = self._check.details()
        if result == Result.OTHER_TIME:
            if self._is_append_time:
                return header  # the log's own time comes there
            return with_max_timestamp(records, 0, header, details.max_timestamp_ms)
        if result == Result.REFUSED:
            refused = self._check.refused(NAMED_MAX)
            times_ms = (now_ms - self._before_max_ms, now_ms + self._after_max_ms)
            refuse_records(refused, details.refused_count, header.base_offset, self._partition_name, times_ms)
        # The checksum is right: clients send again what is called corrupt, which would not help.
        raise InvalidRecords(reason_of(Result(result), details.failed_index, details.failed_position))

    def _is_suspicious(self, header: BatchHeader, now_ms: int) -> bool:
        """Whether the header alone shows that some record may be refused."""
        newest = header.max_timestamp_ms
        if header.attributes & LOG_APPEND_TIME and (self._is_append_time or newest == NO_TIMESTAMP_MS):
            return True
        if self._is_append_time:
            return False
        first = newest if header.attributes & LOG_APPEND_TIME else header.base_timestamp_ms
        is_ahead = newest != NO_TIMESTAMP_MS and newest - now_ms > self._after_max_ms
        return is_ahead or (first != NO_TIMESTAMP_MS and now_ms - first > self._before_max_ms)

    def _refuse_size(self, size_bytes: int) -> NoReturn:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a record batch of {size_bytes} bytes, {self._message_bytes_max} are allowed",
        )


def _one_batch(records: memoryview, size: int) -> memoryview:
    """The first `size` bytes. Raises NotOneBatch unless they are there, and only the beginning of a batch behind them."""
    if size > len(records):
        raise NotOneBatch(f"a record batch of {size} bytes runs past the end, {len(records)} are there")
    if not is_cut_short(records, size):
        raise NotOneBatch("a produce carries exactly one record batch per partition")
    return records[:size]


def _refuse_stream(reason: str) -> NoReturn:
    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, reason)
