"""Checks a produce before it gets an offset: size, format, checksum, timestamps, codec, keys.

Headers decide almost everything. A batch is opened only when its topic requires it: compression.type other than
"producer" with another codec in the batch, or compaction, which needs keys; and when its header shows a timestamp out of
bounds, to name the records at fault. Source: Kafka's LogValidator and UnifiedLog.
"""

from __future__ import annotations

from typing import Final

from bmq.broker.record_checks import RecordRules, refuse_append_time, require_records
from bmq.log.config import LogConfig
from bmq.protocol.compression import BadCompressedData, Compression, begins_as
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import (
    COMPRESSION_MASK,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_MS,
    BatchHeader,
    CorruptRecords,
    InvalidRecords,
    batches,
    clear_log_append_time,
    decode_records,
    encode_batch,
    is_cut_short,
    iterate_records,
    rewrite_log_append_time,
    validate_client_batch,
    validate_records_count,
    verify_crc,
)

RECORDS_OPENED_MAX: Final = 100_000
"""Per batch: opening one costs the event loop a microsecond or two per record, and a megabyte may hold millions."""

AdmittedBatch = tuple[memoryview, BatchHeader]

_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class NotOneBatch(InvalidRecords):
    """The records of a partition are not one whole batch: Kafka refuses them before any log sees them."""


class Admission:
    """The checks under one topic's settings. Made anew when they change. `partition_name`: for people, "topic-0"."""

    __slots__ = (
        "_after_max_ms",
        "_before_max_ms",
        "_codec",
        "_config",
        "_is_append_time",
        "_is_compacted",
        "_message_bytes_max",
        "_partition_name",
        "_segment_bytes",
    )

    def __init__(self, config: LogConfig, partition_name: str = "") -> None:
        self._config = config
        self._partition_name = partition_name
        self._message_bytes_max = config.max_message_bytes
        self._segment_bytes = config.segment_bytes
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._is_append_time = config.message_timestamp_type_is_append_time
        self._is_compacted = "compact" in config.cleanup_policy
        self._codec = _CODECS.get(config.compression_type)

    def admit(self, records: memoryview, now_ms: int) -> AdmittedBatch:
        """The one batch of a client's produce, perhaps rewritten. Raises BmqError with the code for the client.

        The beginning of another batch behind it is cut off without a word, as Kafka's reader does.
        """
        length = len(records)
        header = BatchHeader.parse(records)
        size = header.length + LENGTH_OVERHEAD_BYTES
        if size != length:
            if size > length:
                raise NotOneBatch(f"a record batch of {size} bytes runs past the end, {length} are there")
            if not is_cut_short(records, size):
                raise NotOneBatch("a produce carries exactly one record batch per partition")
            records = records[:size]
        self._require_size(size)
        given = records
        verify_crc(records, 0, header)
        validate_client_batch(header)
        if header.attributes & COMPRESSION_MASK:
            _require_codec(records, header)
        is_stamped = header.attributes & LOG_APPEND_TIME
        if is_stamped and (self._is_append_time or header.max_timestamp_ms == NO_TIMESTAMP_MS):
            # Kafka takes a producer's LogAppendTime for its CreateTime, if there is one, and else refuses it.
            _require_openable(header)
            refuse_append_time(header.record_count, header.base_offset)
        try:
            if not self._is_append_time:
                self._check_timestamps(records, header, now_ms)
            if self._codec is not None or self._is_compacted:
                records, header = self._look_inside(records, header, now_ms)
        except (CorruptRecords, BadCompressedData) as error:
            # The checksum is right: clients send again what is called corrupt, which would not help.
            raise InvalidRecords(str(error)) from error
        if records is not given:
            self._require_size(header.size_bytes)
        if self._is_append_time:
            header = rewrite_log_append_time(records, 0, header, now_ms)
        elif header.attributes & LOG_APPEND_TIME:
            header = clear_log_append_time(records, 0, header)
        if header.length + LENGTH_OVERHEAD_BYTES > self._segment_bytes:
            raise KafkaError(
                ErrorCode.RECORD_LIST_TOO_LARGE,
                f"a record batch of {header.size_bytes} bytes does not fit into a segment of {self._segment_bytes}",
            )
        return records, header

    def admit_internal(self, records: memoryview) -> list[AdmittedBatch]:
        """The batches of the server's own append: only checks that they are whole and countable. Raises BmqError."""
        admitted = []
        for position, header in batches(records):
            validate_records_count(header)
            admitted.append((records[position : position + header.size_bytes], header))
        if not admitted:
            raise InvalidRecords("an append without a record batch")
        return admitted

    def _require_size(self, size_bytes: int) -> None:
        if size_bytes > self._message_bytes_max:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"a record batch of {size_bytes} bytes, {self._message_bytes_max} are allowed",
            )

    def _check_timestamps(self, records: memoryview, header: BatchHeader, now_ms: int) -> None:
        newest = header.max_timestamp_ms
        first = newest if header.attributes & LOG_APPEND_TIME else header.base_timestamp_ms
        if newest != NO_TIMESTAMP_MS and newest - now_ms > self._after_max_ms:
            timestamp_ms = newest
        elif first != NO_TIMESTAMP_MS and now_ms - first > self._before_max_ms:
            timestamp_ms = first
        else:
            return
        _require_openable(header)
        require_records(iterate_records(records), self._rules(now_ms))
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP, f"the header of the batch says {timestamp_ms}, which none of its records has"
        )

    def _rules(self, now_ms: int) -> RecordRules:
        times_ms = None if self._is_append_time else (now_ms - self._before_max_ms, now_ms + self._after_max_ms)
        return RecordRules(self._partition_name, self._is_compacted, times_ms)

    def _look_inside(self, records: memoryview, header: BatchHeader, now_ms: int) -> AdmittedBatch:
        codec = header.compression if self._codec is None else self._codec
        is_other_codec = codec is not header.compression
        if not is_other_codec and not self._is_compacted:
            return records, header
        _require_openable(header)
        if self._is_compacted:
            require_records(iterate_records(records), self._rules(now_ms))
        if not is_other_codec:
            return records, header
        again = memoryview(
            encode_batch(
                decode_records(records),
                base_offset=header.base_offset,
                compression=codec,
                compression_level=None if self._codec is None else self._config.compression_level,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                base_sequence=header.base_sequence,
                is_transactional=header.is_transactional,
            )
        )
        return again, BatchHeader.parse(again)


def _require_codec(records: memoryview, header: BatchHeader) -> None:
    """Raises KafkaError with the code that Kafka, which opens each batch, has for what its codec cannot read."""
    if not begins_as(header.compression, records[HEADER_BYTES : HEADER_BYTES + 4]):
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the records are not compressed by {header.compression.name.lower()}"
        )


def _require_openable(header: BatchHeader) -> None:
    if header.record_count > RECORDS_OPENED_MAX:
        raise InvalidRecords(
            f"a batch of {header.record_count} records, {RECORDS_OPENED_MAX} are allowed where batches are opened"
        )
