"""What a client may append, and with which of Kafka's codes it is refused."""

from __future__ import annotations

import cramjam
import pytest
from crc32c import crc32c

from bmq.broker.batch_validation import BatchValidator, ValidBatch
from bmq.broker.opener import validated_at_once
from bmq.broker.opening_room import TooMuchWork
from bmq.broker.record_errors import RecordsRefused
from bmq.log.config import LogConfig
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression, compress
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, TimestampType, verify_crc, write_times
from bmq.records.record_check_twin import TwinCheck
from tests.fakes.opener import OneRoom
from tests.support.flagged_batch import flagged_batch

pytestmark = pytest.mark.unit

NOW_MS = 1_700_000_000_000


def batch(count: int = 3, **options: object) -> bytearray:
    records = [Record(b"k%d" % n, b"value %d" % n, timestamp_ms=NOW_MS + n) for n in range(count)]
    return flagged_batch(records, **options)  # type: ignore[arg-type]


def validate(config: LogConfig, data: bytes | bytearray, name: str = "") -> ValidBatch:
    """In as much room as any batch may take."""
    view = data if isinstance(data, memoryview) else memoryview(data)
    opened = validated_at_once(BatchValidator(config, name), view, NOW_MS)
    if isinstance(opened, Exception):
        raise opened
    write_times(opened[0], 0, opened[1])
    return opened


def signed(data: bytearray) -> bytearray:
    """With the checksum of what is in it now."""
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4)
    return data


def code_of(config: LogConfig, data: bytes | bytearray) -> ErrorCode:
    with pytest.raises(BmqError) as caught:
        validate(config, bytearray(data))
    return caught.value.code


def named(config: LogConfig, data: bytearray) -> list[int]:
    with pytest.raises(RecordsRefused) as caught:
        validate(config, data, "t-0")
    return [error.batch_index for error in caught.value.record_errors]


def test_a_good_batch_passes_untouched() -> None:
    data = batch(compression=Compression.LZ4, producer_id=7, producer_epoch=0, base_sequence=0)
    view = memoryview(data)
    valid, header = validate(LogConfig(), view)  # type: ignore[arg-type]
    assert valid is view
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
    view, header = validate(LogConfig(), good + good[:count])
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
def test_what_does_not_begin_as_its_codec_is_refused(codec: Compression) -> None:
    """Snappy without a frame begins like anything."""
    assert validate(LogConfig(), batch(compression=codec))[1].compression is codec
    wrong = batch()
    wrong[22] |= codec
    wrong[17:21] = crc32c(bytes(wrong[21:])).to_bytes(4, "big")
    assert code_of(LogConfig(), wrong) is ErrorCode.UNKNOWN_SERVER_ERROR
    nothing = wrong[:61]
    nothing[8:12] = (49).to_bytes(4, "big")
    nothing[17:21] = crc32c(bytes(nothing[21:])).to_bytes(4, "big")
    is_stream = codec is Compression.ZSTD  # one of no frames
    assert code_of(LogConfig(), nothing) is (ErrorCode.INVALID_RECORD if is_stream else ErrorCode.UNKNOWN_SERVER_ERROR)


def test_zstd_may_begin_with_a_frame_to_be_skipped() -> None:
    data = batch(compression=Compression.ZSTD)
    body = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"pad" + data[61:]
    framed = bytearray(data[:61] + body)
    framed[8:12] = (len(framed) - 12).to_bytes(4, "big")
    framed[17:21] = crc32c(bytes(framed[21:])).to_bytes(4, "big")
    assert validate(LogConfig(), framed)[1].record_count == 3


def test_a_batch_may_not_grow_beyond_the_limit_by_being_recompressed() -> None:
    """Kafka checks the size again when it has rewritten a batch."""
    records = [Record(b"k", bytes(10_000), timestamp_ms=NOW_MS)]
    small = encode_batch(records, compression=Compression.GZIP)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=2_000)
    assert code_of(config, small) is ErrorCode.MESSAGE_TOO_LARGE
    large = encode_batch(records)
    assert code_of(LogConfig(compression_type="gzip", max_message_bytes=2_000), large) is ErrorCode.MESSAGE_TOO_LARGE
    validate(LogConfig(compression_type="uncompressed"), small)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_what_cannot_be_opened_is_not_asked_for_again(codec: Compression) -> None:
    """Its checksum is right: to send it again, as clients do after CORRUPT_MESSAGE, would not help."""
    lying = encode_batch([Record(b"k", b"v" * 40, timestamp_ms=NOW_MS + 1)] * 2, compression=codec)
    begin = HEADER_BYTES + 4
    lying[begin:] = b"\xff" * (len(lying) - begin)
    signed(lying)
    for config in (
        LogConfig(),
        LogConfig(cleanup_policy=frozenset({"compact"})),
        LogConfig(compression_type="uncompressed"),
        LogConfig(message_timestamp_after_max_ms=0),
        LogConfig(validates_compressed=False, message_timestamp_after_max_ms=0),
    ):
        assert code_of(config, lying) is ErrorCode.UNKNOWN_SERVER_ERROR
    validate(LogConfig(validates_compressed=False), lying)


@pytest.mark.parametrize("codec", list(Compression))
def test_records_have_to_be_those_that_the_header_counts(codec: Compression) -> None:
    for count in (1, 3):
        lying = batch(2, compression=codec)
        lying[57:61] = count.to_bytes(4)
        lying[23:27] = (count - 1).to_bytes(4)
        assert code_of(LogConfig(), signed(lying)) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("says_ms", [-1, 0, NOW_MS, NOW_MS + 86_400_000, 2**62])
def test_the_greatest_time_becomes_that_of_the_records(codec: Compression, says_ms: int) -> None:
    lying = batch(3, compression=codec)
    lying[35:43] = says_ms.to_bytes(8, signed=True)
    valid, header = validate(LogConfig(), signed(lying))
    verify_crc(valid, 0, header)
    assert header == BatchHeader.parse(valid)
    assert header.max_timestamp_ms == NOW_MS + 2


@pytest.mark.parametrize("is_append_time", [False, True])
@pytest.mark.parametrize("codec", list(Compression))
def test_an_opening_only_reads_the_batch(codec: Compression, is_append_time: bool) -> None:
    data = batch(compression=codec)
    data[35:43] = bytes(8)  # not its records' greatest time
    signed(data)
    config = LogConfig(message_timestamp_type_is_append_time=is_append_time)
    opened = validated_at_once(BatchValidator(config), memoryview(bytes(data)).toreadonly(), NOW_MS)
    assert not isinstance(opened, Exception)
    _, header = BatchValidator(config).validate(memoryview(data), None, NOW_MS, OneRoom(1 << 20))
    assert opened[1] == header == BatchHeader.parse(data)
    verify_crc(data, 0, header)


def test_a_header_is_believed_where_the_topic_says_so() -> None:
    lying = batch(3, compression=Compression.ZSTD)
    lying[35:43] = NOW_MS.to_bytes(8)
    assert validate(LogConfig(validates_compressed=False), signed(lying))[1].max_timestamp_ms == NOW_MS
    assert validate(LogConfig(validates_compressed=False, cleanup_policy=frozenset({"compact"})), lying)[
        1
    ].max_timestamp_ms == (NOW_MS + 2)
    ahead = encode_batch([Record(b"k", b"v", timestamp_ms=NOW_MS * 2)], compression=Compression.ZSTD)
    assert named(LogConfig(validates_compressed=False), ahead) == [0]


def test_lz4_is_one_frame_of_independent_blocks() -> None:
    """Kafka's Java consumers fail at linked blocks, and end at the first frame's end."""
    plain = batch(2)
    for body in (
        bytes(cramjam.lz4.compress(bytes(plain[HEADER_BYTES:]))),
        compress(Compression.LZ4, plain[HEADER_BYTES : HEADER_BYTES + 20])
        + compress(Compression.LZ4, plain[HEADER_BYTES + 20 :]),
    ):
        lying = plain[:HEADER_BYTES] + body
        lying[22] |= Compression.LZ4
        lying[8:12] = (len(lying) - 12).to_bytes(4)
        assert code_of(LogConfig(), signed(lying)) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_bomb_is_too_large(codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code has producers send a batch of several records again in halves."""
    monkeypatch.setattr("bmq.broker.batch_validation.DECOMPRESSED_BYTES_MAX", 1 << 20)
    bomb = encode_batch([Record(b"k", bytes(1 << 20), timestamp_ms=NOW_MS)], compression=codec)
    assert code_of(LogConfig(), bomb) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_what_is_too_much_for_a_room_is_neither_refused_nor_changed(codec: Compression) -> None:
    data = batch(3000, compression=codec)
    data[35:43] = bytes(8)
    signed(data)
    before = bytes(data)
    rooms = [OneRoom(1024), OneRoom(1 << 20, 1000)]
    for room in rooms:
        with pytest.raises(TooMuchWork):
            BatchValidator(LogConfig()).validate(memoryview(data), None, NOW_MS, room)
    assert bytes(data) == before
    room = OneRoom(1 << 20, 10_000_000)
    _, header = BatchValidator(LogConfig()).validate(memoryview(data), None, NOW_MS, room)
    assert header.max_timestamp_ms == NOW_MS + 2999
    assert room.left_ns is not None and 0 < 10_000_000 - room.left_ns < 1_000_000


def test_reading_many_records_counts_as_work() -> None:
    data = batch(3000)
    room = OneRoom(8, 100_000)
    BatchValidator(LogConfig()).validate(memoryview(data), None, NOW_MS, room)
    with pytest.raises(TooMuchWork):
        BatchValidator(LogConfig()).validate(memoryview(data), None, NOW_MS, room)
    BatchValidator(LogConfig()).validate(memoryview(batch(3)), None, NOW_MS, room)


def test_without_the_kernel_a_batch_has_a_bounded_number_of_records(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.broker.batch_validation.record_check", TwinCheck)
    monkeypatch.setattr("bmq.records.record_check_twin.RECORDS_MAX", 3)
    validate(LogConfig(), batch(3))
    monkeypatch.setattr("bmq.broker.batch_validation.UNCOUNTED_NS", 0)
    assert code_of(LogConfig(), batch(4)) is ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(LogConfig(), batch(4, compression=Compression.LZ4)) is ErrorCode.MESSAGE_TOO_LARGE


def test_timestamps_have_bounds() -> None:
    late = encode_batch([Record(None, b"v", timestamp_ms=NOW_MS + 3_600_001)])
    early = encode_batch([Record(None, b"v", timestamp_ms=NOW_MS - 1001)])
    without = encode_batch([Record(None, b"v")])
    assert code_of(LogConfig(), late) is ErrorCode.INVALID_TIMESTAMP
    assert code_of(LogConfig(message_timestamp_before_max_ms=1000), early) is ErrorCode.INVALID_TIMESTAMP
    validate(LogConfig(message_timestamp_before_max_ms=1000), without)
    validate(LogConfig(message_timestamp_before_max_ms=1001), early)


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
    timeless = encode_batch([Record(b"k", b"v")] * 2, attributes=LOG_APPEND_TIME)
    assert named(LogConfig(), timeless) == [0, 1]


def test_log_append_time_replaces_any_timestamp() -> None:
    late = encode_batch([Record(None, b"v", timestamp_ms=NOW_MS * 2)])
    config = LogConfig(message_timestamp_type_is_append_time=True)
    valid, header = validate(config, late)
    verify_crc(valid, 0, header)
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp_ms for record in decode_records(valid)] == [NOW_MS]


@pytest.mark.parametrize("codec", list(Compression))
def test_a_producers_log_append_time_becomes_create_time(codec: Compression) -> None:
    """Where the topic's times are the producers' Kafka takes the batch, judges it by its greatest time, and clears the bit."""
    stamped = batch(3, timestamp_type=TimestampType.LOG_APPEND_TIME, compression=codec)
    valid, header = validate(LogConfig(), stamped)
    verify_crc(valid, 0, header)
    assert header == BatchHeader.parse(valid)
    assert header.timestamp_type is TimestampType.CREATE_TIME
    assert header.max_timestamp_ms == NOW_MS + 2 and header.compression is codec
    assert [record.timestamp_ms for record in decode_records(valid)] == [NOW_MS, NOW_MS + 1, NOW_MS + 2]
    times = [NOW_MS - 5_000, NOW_MS]
    long = [Record(b"k", b"v", timestamp_ms=time_ms) for time_ms in times]
    bounded = LogConfig(message_timestamp_before_max_ms=1_000)
    assert named(bounded, encode_batch(long)) == [0]
    validate(bounded, encode_batch(long, attributes=LOG_APPEND_TIME))
    late = [Record(b"k", b"v", timestamp_ms=time_ms) for time_ms in (NOW_MS, NOW_MS + 3_600_001)]
    assert named(LogConfig(), encode_batch(late, attributes=LOG_APPEND_TIME)) == [0, 1]


def test_a_log_append_time_is_cleared_in_a_batch_that_is_recompressed() -> None:
    stamped = batch(3, timestamp_type=TimestampType.LOG_APPEND_TIME)
    valid, header = validate(LogConfig(compression_type="zstd"), stamped)
    verify_crc(valid, 0, header)
    assert header.timestamp_type is TimestampType.CREATE_TIME and header.compression is Compression.ZSTD


@pytest.mark.parametrize("codec", list(Compression))
def test_another_codec_than_the_topics_is_recompressed(codec: Compression) -> None:
    data = batch(compression=codec, producer_id=7, producer_epoch=1, base_sequence=9)
    valid, header = validate(LogConfig(compression_type="zstd"), data)
    verify_crc(valid, 0, header)
    assert header.compression is Compression.ZSTD
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 9)
    assert decode_records(valid) == decode_records(data)
    assert (valid.obj is data) == (codec is Compression.ZSTD)


def test_a_compacted_topic_needs_keys() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    keyless = encode_batch([Record(b"k", b"v", timestamp_ms=NOW_MS), Record(None, b"v", timestamp_ms=NOW_MS)])
    assert code_of(config, keyless) is ErrorCode.INVALID_RECORD
    validate(config, batch())


def test_the_server_itself_may_append_several_batches_and_control_records() -> None:
    validator = BatchValidator(LogConfig())
    first, second = batch(2), batch(1, is_control=True)
    valid = validator.validate_internal(memoryview(first + second))
    assert [(bytes(view), header.record_count) for view, header in valid] == [
        (bytes(first), 2),
        (bytes(second), 1),
    ]
    for data in (b"", first[:-1]):
        with pytest.raises(BmqError):
            validator.validate_internal(memoryview(data))


def test_recompressing_has_the_topics_level() -> None:
    records = b"".join(f"{number}, ".encode() for number in range(5_000))
    sizes = []
    for level in (1, 22):
        config = LogConfig(compression_type="zstd", compression_level=level)
        data, header = validate(config, encode_batch([Record(b"k", records, timestamp_ms=NOW_MS)]))
        assert header.compression is Compression.ZSTD
        assert [record.value for record in decode_records(data)] == [records]
        sizes.append(header.length)
    assert sizes[0] > sizes[1]
