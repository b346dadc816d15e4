"""Record batches: what is written is read back, aiokafka (the oracle) agrees in every codec, and damage is noticed."""

from __future__ import annotations

import struct
from typing import Any

import cramjam
import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.batch_records import Record, decode_records, encode_batch, iterate_records
from bmq.protocol.compression import (
    BadCompressedData,
    Compression,
    UnknownCompression,
    compress,
    decompress,
)
from bmq.protocol.control_batch import (
    ControlType,
    EndTransactionMarker,
    control_type_of,
    encode_end_transaction_marker,
    parse_end_transaction_marker,
)
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import (
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    CorruptRecords,
    InvalidRecords,
    TimestampType,
    UnsupportedMagic,
    batches,
    clear_log_append_time,
    rewrite,
    rewrite_log_append_time,
    validate_client_batch,
    validate_records_count,
    verify_crc,
)
from tests.support.flagged_batch import flagged_batch

pytestmark = pytest.mark.unit

TIMESTAMPS = st.integers(0, 2**45)
RECORDS = st.builds(
    Record,
    key=st.none() | st.binary(max_size=40),
    value=st.none() | st.binary(max_size=300),
    headers=st.lists(
        st.tuples(st.text(st.characters(codec="utf-8"), max_size=8), st.none() | st.binary(max_size=20)), max_size=3
    ).map(tuple),
    timestamp_ms=TIMESTAMPS,
)
BATCHES = st.lists(RECORDS, min_size=1, max_size=20)
CODECS = st.sampled_from(Compression)


def sample(count: int = 3, **options: Any) -> bytearray:
    return flagged_batch([Record(b"k", b"v" * 50, (), 1_000 + i) for i in range(count)], **options)


@given(records=BATCHES, codec=CODECS, base_offset=st.integers(0, 2**62), producer=st.booleans())
def test_what_is_written_is_read_back(
    records: list[Record], codec: Compression, base_offset: int, producer: bool
) -> None:
    fields: dict[str, Any] = {"producer_id": 9, "producer_epoch": 2, "base_sequence": 5} if producer else {}
    batch = encode_batch(
        records,
        base_offset=base_offset,
        leader_epoch=7,
        compression=codec,
        attributes=(TRANSACTIONAL if producer else 0),
        **fields,
    )
    header = BatchHeader.parse(batch)
    assert list(batches(batch)) == [(0, header)]
    verify_crc(batch, 0, header)
    validate_client_batch(header)
    assert (header.base_offset, header.leader_epoch, header.size_bytes) == (base_offset, 7, len(batch))
    assert (header.end_offset, header.last_offset) == (base_offset + len(records), base_offset + len(records) - 1)
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)
    assert (header.compression, header.is_control, header.timestamp_type) == (codec, False, TimestampType.CREATE_TIME)
    assert (header.is_transactional, header.has_producer_id) == (producer, producer)
    assert header.last_sequence == (5 + len(records) - 1 if producer else -1)
    expected = tuple(record._replace(offset=base_offset + i) for i, record in enumerate(records))
    assert decode_records(batch) == expected
    assert decode_records(memoryview(b"in front" + batch + b"behind"), 8) == expected


@given(records=BATCHES, codec=CODECS)
def test_aiokafka_reads_what_is_written(records: list[Record], codec: Compression) -> None:
    batch = DefaultRecordBatch(bytes(encode_batch(records, base_offset=100, compression=codec)))
    assert batch.validate_crc()
    read = [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
    assert read == [(100 + i, r.timestamp_ms, r.key, r.value, list(r.headers)) for i, r in enumerate(records)]


@given(records=BATCHES, codec=CODECS, is_transactional=st.booleans())
def test_what_aiokafka_writes_is_read(records: list[Record], codec: Compression, is_transactional: bool) -> None:
    builder = DefaultRecordBatchBuilder(
        2, int(codec), is_transactional, producer_id=1, producer_epoch=0, base_sequence=4, batch_size=1 << 20
    )
    for index, record in enumerate(records):
        builder.append(index, record.timestamp_ms, record.key, record.value, list(record.headers))
    batch = bytes(builder.build())
    ((position, header),) = batches(batch)
    verify_crc(batch, position, header)
    validate_client_batch(header)
    # aiokafka leaves a batch alone that compression would make longer.
    assert header.compression in (codec, Compression.NONE)
    assert header.is_transactional == is_transactional
    assert decode_records(batch) == tuple(record._replace(offset=i) for i, record in enumerate(records))


@given(records=BATCHES, codec=CODECS)
def test_one_bit_is_noticed(records: list[Record], codec: Compression) -> None:
    batch = encode_batch(records, compression=codec)
    header = BatchHeader.parse(batch)
    for position in range(21, len(batch), max(1, len(batch) // 20)):
        damaged = bytearray(batch)
        damaged[position] ^= 4
        with pytest.raises(CorruptRecords, match="checksum"):
            verify_crc(damaged, 0, header)


@given(data=st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: bytes(sample())[:-20] + tail))
def test_any_bytes_are_batches_or_refused(data: bytes) -> None:
    try:
        for position, header in batches(data):
            assert position + header.size_bytes <= len(data)
            decode_records(data, position)
            parse_end_transaction_marker(data, position)
    except BmqError as error:
        assert error.code in (
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.INVALID_RECORD,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        )


@given(records=BATCHES, data=st.data())
def test_records_with_flipped_bits_never_raise_anything_else(records: list[Record], data: st.DataObject) -> None:
    batch = encode_batch(records, compression=data.draw(CODECS))
    place = data.draw(st.integers(HEADER_BYTES, len(batch) - 1))
    batch[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        decode_records(batch)
    except BmqError as error:
        assert error.code is ErrorCode.CORRUPT_MESSAGE


def test_batches_back_to_back() -> None:
    log = sample(2) + sample(5) + sample(1)
    assert [header.record_count for _, header in batches(log)] == [2, 5, 1]
    assert [position for position, _ in batches(log)] == [0, len(sample(2)), len(sample(2) + sample(5))]
    assert list(batches(b"")) == []
    with pytest.raises(CorruptRecords, match="past the end"):
        list(batches(log[:-1]))
    with pytest.raises(CorruptRecords):
        list(batches(log + b"\0" * 30))
    with pytest.raises(CorruptRecords, match="shorter than its header"):
        BatchHeader.parse(struct.pack(">qiib", 0, 40, 0, 2) + bytes(50))
    with pytest.raises(CorruptRecords, match="past the end"):
        verify_crc(log[:-1], 0, BatchHeader.parse(log)._replace(length=len(log)))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_are_refused_with_kafkas_code(magic: int) -> None:
    body = bytes(10)
    old = struct.pack(">qiib", 0, 6 + len(body), 0, magic) + b"\0" + body
    for message in (old, old + bytes(60)):
        with pytest.raises(UnsupportedMagic) as caught:
            list(batches(message))
        assert caught.value.code is ErrorCode.INVALID_RECORD
    with pytest.raises(CorruptRecords, match="magic 3"):
        BatchHeader.parse(struct.pack(">qiib", 0, 100, 0, 3) + bytes(50))


def test_placing_a_batch_keeps_its_checksum() -> None:
    log = bytearray(b"..") + sample()
    view = memoryview(log)
    rewrite(view, 2, 2**40, 12)
    header = BatchHeader.parse(log, 2)
    assert (header.base_offset, header.leader_epoch, header.end_offset) == (2**40, 12, 2**40 + 3)
    verify_crc(log, 2, header)
    assert [record.offset for record in decode_records(log, 2)] == [2**40, 2**40 + 1, 2**40 + 2]


def test_log_append_time() -> None:
    log = bytearray(b"..") + sample()
    stamped = rewrite_log_append_time(log, 2, BatchHeader.parse(log, 2), 5_000)
    assert stamped == BatchHeader.parse(log, 2)
    assert (stamped.timestamp_type, stamped.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, 5_000)
    verify_crc(log, 2, stamped)
    assert {record.timestamp_ms for record in decode_records(log, 2)} == {5_000}
    oracle = DefaultRecordBatch(bytes(log[2:]))
    assert oracle.validate_crc() and {record.timestamp for record in oracle} == {5_000}


def test_log_append_time_is_cleared() -> None:
    plain = bytearray(b"..") + sample()
    stamped = bytearray(plain)
    rewrite_log_append_time(stamped, 2, BatchHeader.parse(stamped, 2), BatchHeader.parse(plain, 2).max_timestamp_ms)
    assert stamped != plain
    header = clear_log_append_time(stamped, 2, BatchHeader.parse(stamped, 2))
    assert header == BatchHeader.parse(plain, 2)
    assert stamped == plain


def test_contradictions_are_refused() -> None:
    good = BatchHeader.parse(sample(3, producer_id=1, producer_epoch=0, base_sequence=0))
    validate_client_batch(good)
    for wrong in (
        {"record_count": 0},
        {"record_count": -1, "last_offset_delta": -2},
        {"record_count": 4},
        {"last_offset_delta": -1},
        {"last_offset_delta": 2**31 - 1},
    ):
        with pytest.raises(InvalidRecords):
            validate_records_count(good._replace(**wrong))
    for wrong in (
        {"base_sequence": -1},
        {"producer_epoch": -1},
        {"attributes": 1 << 5},
        {"producer_id": -1, "attributes": 16},
    ):
        with pytest.raises(InvalidRecords):
            validate_client_batch(good._replace(**wrong))
    with pytest.raises(UnknownCompression) as caught:
        validate_client_batch(good._replace(attributes=5))
    assert caught.value.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(UnknownCompression):
        decode_records(sample(1)[:21] + b"\0\x07" + sample(1)[23:])


def test_sequences_wrap_to_zero() -> None:
    header = BatchHeader.parse(sample(3, producer_id=1, producer_epoch=0, base_sequence=2**31 - 2))
    assert header.last_sequence == 0


def test_a_compacted_batch_keeps_offsets() -> None:
    records = decode_records(sample(5, base_offset=10))
    kept = flagged_batch([records[1], records[4]], base_offset=10, last_offset=14)
    assert decode_records(kept) == (records[1], records[4])
    assert BatchHeader.parse(kept).end_offset == 15
    empty = flagged_batch([], base_offset=10, last_offset=14)
    header = BatchHeader.parse(empty)
    assert (decode_records(empty), header.end_offset, header.record_count) == ((), 15, 0)
    verify_crc(empty, 0, header)


def test_header_keys_need_not_be_utf8() -> None:
    batch = encode_batch([Record(None, None, (("\udcff\udcfe", b"x"),), 1)])
    assert b"\xff\xfe" in batch
    assert decode_records(batch)[0].headers == (("\udcff\udcfe", b"x"),)


def test_looking_for_a_time_stops_early() -> None:
    damaged = sample(3)
    damaged[-1:] = b""
    struct.pack_into(">i", damaged, 8, len(damaged) - 12)
    found = next(record for record in iterate_records(damaged) if record.timestamp_ms >= 1_001)
    assert found.offset == 1
    with pytest.raises(CorruptRecords):
        decode_records(damaged)


def test_records_that_contradict_their_lengths() -> None:
    for body in (
        b"\x01",
        b"\x80" * 11,
        b"\x0e\0\0\0\1\1\0\0",
        b"\x0c\0\0\0\1\1\1",
        b"\x0c\0\0\0\x05\1\0",
        b"\x0e\0\0\0\1\1\2\1",
    ):
        batch = sample(1)[:HEADER_BYTES] + body
        struct.pack_into(">i", batch, 8, len(batch) - 12)
        with pytest.raises(CorruptRecords):
            decode_records(batch)
    trailing = sample(1) + b"\0"
    struct.pack_into(">i", trailing, 8, len(trailing) - 12)
    with pytest.raises(CorruptRecords, match="left behind"):
        decode_records(trailing)


@given(data=st.binary(max_size=2000) | st.integers(0, 200_000).map(lambda size: b"ab" * size), codec=CODECS)
def test_compression_round_trips(data: bytes, codec: Compression) -> None:
    compressed = compress(codec, data)
    assert bytes(decompress(codec, compressed)) == data
    assert bytes(decompress(codec, memoryview(compressed), len(data))) == data
    if len(data) > 1:
        with pytest.raises(BadCompressedData):
            decompress(codec, compressed, len(data) - 1)


@given(codec=st.sampled_from([c for c in Compression if c is not Compression.NONE]), data=st.binary(max_size=60))
def test_bytes_of_no_meaning_do_not_decompress(codec: Compression, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, 100_000)) <= 100_000
    except BadCompressedData:
        pass


def test_snappy_as_librdkafka_and_as_java_write_it() -> None:
    data = b"snappy" * 20_000
    raw = bytes(cramjam.snappy.compress_raw(data))
    assert decompress(Compression.SNAPPY, raw) == data
    xerial = compress(Compression.SNAPPY, data)
    assert xerial.startswith(b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01")
    for wrong in (xerial[:18], xerial[:-1], xerial[:16] + b"\xff\xff\xff\xff" + xerial[20:]):
        with pytest.raises(BadCompressedData):
            decompress(Compression.SNAPPY, wrong)


def test_lz4_frames_have_independent_blocks() -> None:
    assert compress(Compression.LZ4, b"x" * 100)[4] & 0x20  # Kafka's Java reader refuses others


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_bomb_is_refused(codec: Compression) -> None:
    bomb = compress(codec, bytes(30_000_000))
    batch = sample(1)[:HEADER_BYTES] + bomb
    batch[22] = codec
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    with pytest.raises(BadCompressedData) as caught:
        decode_records(batch, length_bytes_max=1_000_000)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("control_type", [ControlType.ABORT, ControlType.COMMIT])
def test_end_transaction_markers(control_type: ControlType) -> None:
    marker = EndTransactionMarker(control_type, 17)
    batch = encode_end_transaction_marker(marker, producer_id=5, producer_epoch=3, timestamp_ms=1_000, base_offset=8)
    header = BatchHeader.parse(batch)
    verify_crc(batch, 0, header)
    assert (header.is_control, header.is_transactional, header.producer_id, header.producer_epoch) == (True, True, 5, 3)
    assert parse_end_transaction_marker(batch) == marker
    (record,) = decode_records(batch)
    assert (record.key, record.value) == (struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, 17))
    assert DefaultRecordBatch(bytes(batch)).is_control_batch
    with pytest.raises(InvalidRecords, match="control"):
        validate_client_batch(header)


def test_other_control_batches() -> None:
    def control(key: bytes | None, value: bytes | None) -> bytearray:
        return encode_batch([Record(key, value, timestamp_ms=1)], attributes=TRANSACTIONAL | CONTROL, producer_id=1)

    assert parse_end_transaction_marker(control(struct.pack(">hh", 0, 2), b"")) is None
    assert control_type_of(Record(struct.pack(">hh", 0, 99), None)) is None
    newer = control(struct.pack(">hh", 1, 1), struct.pack(">hi", 3, 4) + b"more")
    assert parse_end_transaction_marker(newer) == EndTransactionMarker(ControlType.COMMIT, 4)
    for key, value in (
        (None, b""),
        (b"\0\0", b""),
        (b"\xff\xff\0\1", bytes(6)),
        (bytes(4), b"\0"),
        (bytes(4), b"\xff\xff" + bytes(4)),
    ):
        with pytest.raises(CorruptRecords):
            parse_end_transaction_marker(control(key, value))


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Compression.GZIP, (1, 6, 9)),
        (Compression.LZ4, (1, 9, 12, 17)),
        (Compression.ZSTD, (-131_072, -1, 0, 1, 22)),
        (Compression.SNAPPY, (1,)),
        (Compression.NONE, (1,)),
    ],
)
def test_every_level_that_a_topic_may_ask_for_is_read_back(codec: Compression, levels: tuple[int, ...]) -> None:
    data = b"".join(f"{number}, ".encode() for number in range(5_000))
    made = [compress(codec, data, level) for level in levels]
    assert all(bytes(decompress(codec, compressed)) == data for compressed in made)
    assert (len(set(made)) > 1) == (codec in (Compression.GZIP, Compression.LZ4, Compression.ZSTD))
