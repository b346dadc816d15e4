"""What a client may append, and with which of Kafka's codes it is refused."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from bmq.broker.admission import Admission
from bmq.broker.record_checks import RecordsRefused
from bmq.log.config import LogConfig
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import (
    HEADER_BYTES,
    BatchHeader,
    Record,
    TimestampType,
    decode_records,
    encode_batch,
    verify_crc,
)

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000


def batch(count: int = 3, **options: object) -> bytearray:
    records = [Record(b"k%d" % n, b"value %d" % n, timestamp_ms=NOW_MS + n) for n in range(count)]
    return encode_batch(records, **options)  # type: ignore[arg-type]


def code_of(config: LogConfig, data: bytes | bytearray) -> ErrorCode:
    with pytest.raises(BmqError) as caught:
        Admission(config).admit(memoryview(bytearray(data)), NOW_MS)
    return caught.value.code


def named(config: LogConfig, data: bytearray) -> list[int]:
    with pytest.raises(RecordsRefused) as caught:
        Admission(config, "t-0").admit(memoryview(data), NOW_MS)
    return [error.batch_index for error in caught.value.record_errors]


def test_a_good_batch_passes_untouched() -> None:
    data = batch(compression=Compression.LZ4, producer_id=7, producer_epoch=0, base_sequence=0)
    view = memoryview(data)
    admitted, header = Admission(LogConfig()).admit(view, NOW_MS)
    assert admitted is view
    assert header == BatchHeader.parse(data)


def test_refusals_have_kafkas_codes() -> None:
    good = batch()
    wrong_crc = bytearray(good)
    wrong_crc[-1] ^= 1
    old_magic = bytearray(good)
    old_magic[16] = 1
    assert code_of(LogConfig(), b"") is ErrorCode.CORRUPT_MESSAGE
    assert code_of(LogConfig(), good[:-1]) is ErrorCode.INVALID_RECORD
    assert code_of(LogConfig(), good[:40]) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(LogConfig(), wrong_crc) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(LogConfig(), old_magic) is ErrorCode.INVALID_RECORD
    assert code_of(LogConfig(), good + good) is ErrorCode.INVALID_RECORD
    assert code_of(LogConfig(), batch(is_control=True)) is ErrorCode.INVALID_RECORD
    assert code_of(LogConfig(), batch(is_transactional=True)) is ErrorCode.INVALID_RECORD
    assert code_of(LogConfig(max_message_bytes=len(good) - 1), good) is ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(LogConfig(segment_bytes=len(good) - 1), good) is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("count", [1, 11, 12, 16, 40])
def test_the_beginning_of_another_batch_is_cut_off(count: int) -> None:
    good = batch()
    view, header = Admission(LogConfig()).admit(memoryview(good + good[:count]), NOW_MS)
    assert view == good
    assert header.size_bytes == len(good)


@pytest.mark.parametrize("behind", [bytes(12), bytes(8) + b"\0\0\0\x0d", bytes(8) + b"\xff" * 4 + bytes(40)])
def test_what_can_be_no_batch_is_not_cut_off(behind: bytes) -> None:
    assert code_of(LogConfig(), batch() + behind) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_of_an_unknown_format_behind_another_is_refused() -> None:
    behind = batch()[:40]
    behind[16] = 3
    assert code_of(LogConfig(), batch() + behind) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_what_does_not_begin_as_its_codec_is_refused_and_not_opened(codec: Compression) -> None:
    """Snappy without a frame begins like anything."""
    assert Admission(LogConfig()).admit(memoryview(batch(compression=codec)), NOW_MS)[1].compression is codec
    wrong = batch()
    wrong[22] |= codec
    wrong[17:21] = crc32c(bytes(wrong[21:])).to_bytes(4, "big")
    assert code_of(LogConfig(), wrong) is ErrorCode.UNKNOWN_SERVER_ERROR
    nothing = wrong[:61]
    nothing[8:12] = (49).to_bytes(4, "big")
    nothing[17:21] = crc32c(bytes(nothing[21:])).to_bytes(4, "big")
    assert code_of(LogConfig(), nothing) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_zstd_may_begin_with_a_frame_to_be_skipped() -> None:
    data = batch(compression=Compression.ZSTD)
    body = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"pad" + data[61:]
    framed = bytearray(data[:61] + body)
    framed[8:12] = (len(framed) - 12).to_bytes(4, "big")
    framed[17:21] = crc32c(bytes(framed[21:])).to_bytes(4, "big")
    assert Admission(LogConfig()).admit(memoryview(framed), NOW_MS)[1].record_count == 3


def test_a_batch_that_is_opened_has_a_bounded_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.broker.admission.RECORDS_OPENED_MAX", 3)
    compacted = LogConfig(cleanup_policy=frozenset({"compact"}))
    Admission(compacted).admit(memoryview(batch(3)), NOW_MS)
    Admission(LogConfig()).admit(memoryview(batch(4)), NOW_MS)
    assert code_of(compacted, batch(4)) is ErrorCode.INVALID_RECORD
    assert code_of(LogConfig(compression_type="zstd"), batch(4)) is ErrorCode.INVALID_RECORD


def test_a_batch_may_not_grow_beyond_the_limit_by_being_recompressed() -> None:
    """Kafka checks the size again when it has rewritten a batch."""
    records = [Record(b"k", bytes(10_000), timestamp_ms=NOW_MS)]
    small = encode_batch(records, compression=Compression.GZIP)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=2_000)
    assert code_of(config, small) is ErrorCode.MESSAGE_TOO_LARGE
    large = encode_batch(records)
    assert code_of(LogConfig(compression_type="gzip", max_message_bytes=2_000), large) is ErrorCode.MESSAGE_TOO_LARGE
    Admission(LogConfig(compression_type="uncompressed")).admit(memoryview(small), NOW_MS)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_what_cannot_be_opened_is_not_asked_for_again(codec: Compression) -> None:
    """Its checksum is right: to send it again, as clients do after CORRUPT_MESSAGE, would not help."""
    records = [Record(b"k", b"v" * 40, timestamp_ms=NOW_MS + 1)] * 2
    lying = bytearray(encode_batch(records, compression=codec))
    begin = HEADER_BYTES + 4  # behind what is looked at of every batch
    lying[begin:] = b"\xff" * (len(lying) - begin)
    lying[17:21] = crc32c(memoryview(lying)[21:]).to_bytes(4)
    Admission(LogConfig()).admit(memoryview(lying), NOW_MS)
    for config in (
        LogConfig(cleanup_policy=frozenset({"compact"})),
        LogConfig(compression_type="uncompressed"),
        LogConfig(message_timestamp_after_max_ms=0),
    ):
        assert code_of(config, lying) is ErrorCode.INVALID_RECORD


def test_a_batch_is_opened_only_as_far_as_its_offsets_grow() -> None:
    """A few bytes may say the same record a million times."""
    same = [Record(b"k", b"v", timestamp_ms=NOW_MS, offset=0)] * 3
    hostile = encode_batch(same, last_offset=2, compression=Compression.ZSTD)
    assert code_of(LogConfig(cleanup_policy=frozenset({"compact"})), hostile) is ErrorCode.INVALID_RECORD


def test_timestamps_have_bounds() -> None:
    late = encode_batch([Record(None, b"v", timestamp_ms=NOW_MS + 3_600_001)])
    early = encode_batch([Record(None, b"v", timestamp_ms=NOW_MS - 1001)])
    without = encode_batch([Record(None, b"v")])
    assert code_of(LogConfig(), late) is ErrorCode.INVALID_TIMESTAMP
    assert code_of(LogConfig(message_timestamp_before_max_ms=1000), early) is ErrorCode.INVALID_TIMESTAMP
    Admission(LogConfig(message_timestamp_before_max_ms=1000)).admit(memoryview(without), NOW_MS)
    Admission(LogConfig(message_timestamp_before_max_ms=1001)).admit(memoryview(early), NOW_MS)


def test_records_at_fault_are_named() -> None:
    compacted = LogConfig(cleanup_policy=frozenset({"compact"}))
    keyless = [Record(None if n in (1, 3) else b"k", b"v", timestamp_ms=NOW_MS) for n in range(5)]
    assert named(compacted, encode_batch(keyless, compression=Compression.LZ4)) == [1, 3]
    times = [NOW_MS, NOW_MS + 3_600_001, NOW_MS, NOW_MS + 3_600_002]
    late = encode_batch([Record(b"k", b"v", timestamp_ms=time_ms) for time_ms in times])
    assert named(LogConfig(), late) == [1, 3]
    early = encode_batch([Record(b"k", b"v", timestamp_ms=NOW_MS - 1001), Record(b"k", b"v", timestamp_ms=NOW_MS)])
    assert named(LogConfig(message_timestamp_before_max_ms=1000), early) == [0]
    stamped = batch(3, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert named(LogConfig(message_timestamp_type_is_append_time=True), stamped) == [0, 1, 2]
    timeless = encode_batch([Record(b"k", b"v")] * 2, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert named(LogConfig(), timeless) == [0, 1]


def test_a_header_that_contradicts_its_records_is_refused_without_names() -> None:
    lying = batch(2)
    lying[35:43] = (NOW_MS * 2).to_bytes(8)
    lying[17:21] = crc32c(memoryview(lying)[21:]).to_bytes(4)
    assert code_of(LogConfig(), lying) is ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_replaces_any_timestamp() -> None:
    late = encode_batch([Record(None, b"v", timestamp_ms=NOW_MS * 2)])
    config = LogConfig(message_timestamp_type_is_append_time=True)
    admitted, header = Admission(config).admit(memoryview(late), NOW_MS)
    verify_crc(admitted, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in decode_records(admitted)] == [NOW_MS]


@pytest.mark.parametrize("codec", list(Compression))
def test_a_producers_log_append_time_becomes_create_time(codec: Compression) -> None:
    """Where the topic's times are the producers' Kafka takes the batch, judges it by its greatest time, and clears the bit."""
    stamped = batch(3, timestamp_type=TimestampType.LOG_APPEND_TIME, compression=codec)
    admitted, header = Admission(LogConfig()).admit(memoryview(stamped), NOW_MS)
    verify_crc(admitted, 0, header)
    assert header == BatchHeader.parse(admitted)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.max_timestamp_ms == NOW_MS + 2 and header.compression is codec
    assert [record.timestamp_ms for record in decode_records(admitted)] == [NOW_MS, NOW_MS + 1, NOW_MS + 2]
    times = [NOW_MS - 5_000, NOW_MS]
    long = [Record(b"k", b"v", timestamp_ms=time_ms) for time_ms in times]
    bounded = LogConfig(message_timestamp_before_max_ms=1_000)
    assert named(bounded, encode_batch(long)) == [0]
    Admission(bounded).admit(memoryview(encode_batch(long, timestamp_type=TimestampType.LOG_APPEND_TIME)), NOW_MS)
    late = [Record(b"k", b"v", timestamp_ms=time_ms) for time_ms in (NOW_MS, NOW_MS + 3_600_001)]
    assert named(LogConfig(), encode_batch(late, timestamp_type=TimestampType.LOG_APPEND_TIME)) == [0, 1]


def test_a_log_append_time_is_cleared_in_a_batch_that_is_recompressed() -> None:
    stamped = batch(3, timestamp_type=TimestampType.LOG_APPEND_TIME)
    admitted, header = Admission(LogConfig(compression_type="zstd")).admit(memoryview(stamped), NOW_MS)
    verify_crc(admitted, 0, header)
    assert header.timestamp_type is TimestampType.CREATE_TIME and header.compression is Compression.ZSTD


@pytest.mark.parametrize("codec", list(Compression))
def test_another_codec_than_the_topics_is_recompressed(codec: Compression) -> None:
    data = batch(compression=codec, producer_id=7, producer_epoch=1, base_sequence=9)
    admitted, header = Admission(LogConfig(compression_type="zstd")).admit(memoryview(data), NOW_MS)
    verify_crc(admitted, 0, header)
    assert header.compression is Compression.ZSTD
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 9)
    assert decode_records(admitted) == decode_records(data)
    assert (admitted.obj is data) == (codec is Compression.ZSTD)


def test_a_compacted_topic_needs_keys() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    keyless = encode_batch([Record(b"k", b"v", timestamp_ms=NOW_MS), Record(None, b"v", timestamp_ms=NOW_MS)])
    assert code_of(config, keyless) is ErrorCode.INVALID_RECORD
    Admission(config).admit(memoryview(batch()), NOW_MS)


def test_the_server_itself_may_append_several_batches_and_control_records() -> None:
    admission = Admission(LogConfig())
    first, second = batch(2), batch(1, is_control=True)
    admitted = admission.admit_internal(memoryview(first + second))
    assert [(bytes(view), header.record_count) for view, header in admitted] == [
        (bytes(first), 2),
        (bytes(second), 1),
    ]
    for data in (b"", first[:-1]):
        with pytest.raises(BmqError):
            admission.admit_internal(memoryview(data))


def test_recompressing_has_the_topics_level() -> None:
    records = b"".join(f"{number}, ".encode() for number in range(5_000))
    sizes = []
    for level in (1, 22):
        config = LogConfig(compression_type="zstd", compression_level=level)
        data, header = Admission(config).admit(
            memoryview(encode_batch([Record(b"k", records, timestamp_ms=NOW_MS)])), NOW_MS
        )
        assert header.compression is Compression.ZSTD
        assert [record.value for record in decode_records(data)] == [records]
        sizes.append(header.length)
    assert sizes[0] > sizes[1]
