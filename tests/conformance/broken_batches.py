"""Record batches broken in many ways, the same on every run: what lies under a checksum that is right.

`ways(codec)` names them: first what is wrong with records, and is then compressed, then what is wrong with the
compressed bytes themselves. Times of records are some milliseconds before `now_ms`.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from random import Random
from typing import Final

import cramjam
import crc32c
import xxhash

from testing.wire import varint

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODECS: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
SEED: Final = 29
FLIPS: Final = 12
CUTS: Final = 8
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
LZ4_MAGIC: Final = struct.pack("<I", 0x184D2204)
Way = tuple[str, bytes]


def record(
    delta: int,
    key: bytes | None = b"k",
    value: bytes | None = b"value",
    *,
    timestamp_delta: int = 0,
    headers: bytes = varint(0),
    attributes: int = 0,
    length: int | None = None,
    key_length: int | None = None,
    value_length: int | None = None,
) -> bytes:
    """One record; `headers`: their count and they. A length that is given replaces the right one."""
    return framed(
        bytes([attributes])
        + varint(timestamp_delta)
        + varint(delta)
        + nullable(key, key_length)
        + nullable(value, value_length)
        + headers,
        length,
    )


def framed(body: bytes, length: int | None = None) -> bytes:
    return varint(len(body) if length is None else length) + body


def nullable(data: bytes | None, length: int | None = None) -> bytes:
    if length is None:
        length = -1 if data is None else len(data)
    return varint(length) + (data or b"")


def batch(
    body: bytes,
    codec: int,
    now_ms: int,
    *,
    count: int = 2,
    last_delta: int | None = None,
    base_timestamp_ms: int | None = None,
    max_timestamp_ms: int | None = None,
    attributes: int = 0,
) -> bytes:
    """A batch with these bytes for its records, already of the codec, and a right checksum."""
    base_ms = now_ms - 1000 if base_timestamp_ms is None else base_timestamp_ms
    checked = struct.pack(
        ">hiqqqhii",
        codec | attributes,
        count - 1 if last_delta is None else last_delta,
        base_ms,
        base_ms if max_timestamp_ms is None else max_timestamp_ms,
        -1,
        -1,
        -1,
        count,
    )
    checked += body
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c.crc32c(checked)) + checked


def compressed(codec: int, data: bytes) -> bytes:
    match codec:
        case 1:
            return gzip.compress(data, mtime=0)
        case 2:
            return xerial(data)
        case 3:
            return lz4_frame(data)
        case 4:
            return bytes(cramjam.zstd.compress(data))
    return data


def xerial(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, len(block)) + block


def lz4_frame(
    data: bytes,
    *,
    flags: int = 0b0110_0000,
    block_descriptor: int = 0x40,
    size: int | None = None,
    checksum_error: int = 0,
    block_checksum: int | None = None,
    content_checksum: int | None = None,
    is_stored: bool = False,
    ends: bool = True,
    block_size: int | None = None,
) -> bytes:
    """A frame of one block, independent unless the flags say otherwise."""
    descriptor = bytes([flags, block_descriptor]) + (b"" if size is None else struct.pack("<Q", size))
    check = xxhash.xxh32(descriptor).intdigest() >> 8 & 0xFF ^ checksum_error
    block = data if is_stored else bytes(cramjam.lz4.compress_block(data, store_size=False))
    length = (len(block) if block_size is None else block_size) | (1 << 31 if is_stored else 0)
    out = LZ4_MAGIC + descriptor + bytes([check]) + struct.pack("<I", length) + block
    if block_checksum is not None:
        out += struct.pack("<I", block_checksum)
    if ends:
        out += struct.pack("<I", 0)
    if content_checksum is not None:
        out += struct.pack("<I", content_checksum)
    return out


def ways(codec: int, now_ms: int) -> Iterator[Way]:
    """(name, batch) of each way. `now_ms`: the server's time, about."""
    two = record(0) + record(1, value=b"v" * 40)
    yield "right", batch(compressed(codec, two), codec, now_ms)
    for name, body in _wrong_records():
        yield name, batch(compressed(codec, body), codec, now_ms)
    yield from _wrong_headers(codec, two, now_ms)
    if codec:
        yield from _wrong_streams(codec, two, now_ms)
    else:
        yield from _flipped(two, codec, now_ms)


def _wrong_records() -> Iterator[Way]:
    first, second = record(0), record(1)
    yield "bytes of 0x7f", b"\x7f" * 40
    yield "bytes of 0xff", b"\xff" * 40
    yield "zeros", bytes(40)
    yield "no records", b""
    yield "one record less", first
    yield "one record more", first + second + record(2)
    yield "a byte behind the records", first + second + b"\0"
    yield "the last record cut short", (first + second)[:-1]
    yield "the last record cut in its key", first + second[:5]
    yield "a length of -1", first + record(1, length=-1)
    yield "a length of 2**31 - 1", first + record(1, length=2**31 - 1)
    yield "a length of 0", first + varint(0) + second[1:]
    yield "a length one too short", first + record(1, length=len(second) - 2)
    yield "a length one too long", first + record(1, length=len(second)) + b"\0"
    yield "a first length one too long", record(0, length=len(first)) + second
    yield "a length of five bytes that are more than 32 bits", first + b"\x80\x80\x80\x80\x10" + second[1:]
    yield "a length of ten bytes", first + b"\x80" * 9 + b"\x00" + second[1:]
    yield "a length in more bytes than it needs", first + bytes([second[0] | 0x80, 0]) + second[1:]
    yield "a key of -2 bytes", first + record(1, None, key_length=-2)
    yield "a value of -2 bytes", first + record(1, value=None, value_length=-2)
    yield "a key of 2**31 - 1 bytes", first + record(1, key_length=2**31 - 1)
    yield "a key of -2**31 bytes", first + record(1, None, key_length=-(2**31))
    yield "a value longer than its record", first + record(1, value_length=6)
    yield "a value shorter than its record", first + record(1, value_length=4)
    yield "no key and no value", first + record(1, None, None)
    yield "offsets from 1 on", record(1) + record(2)
    yield "the same offset twice", first + record(0)
    yield "offsets with a gap", first + record(5)
    yield "offsets that go back", record(1) + record(0)
    yield "an offset below 0", first + record(-1)
    yield "an offset delta of 2**31 - 1", first + record(2**31 - 1)
    yield "-1 headers", first + record(1, headers=varint(-1))
    yield "2**31 - 1 headers", first + record(1, headers=varint(2**31 - 1))
    yield "a header more than there is", first + record(1, headers=varint(2) + nullable(b"h") + nullable(b"v"))
    yield "a header less than there is", first + record(1, headers=varint(0) + nullable(b"h") + nullable(b"v"))
    yield "a header without a key", first + record(1, headers=varint(1) + nullable(None) + nullable(b"v"))
    yield "a header without a value", first + record(1, headers=varint(1) + nullable(b"h") + nullable(None))
    yield "a header's value of -7 bytes", first + record(1, headers=varint(1) + nullable(b"h") + nullable(b"", -7))
    yield "a header's value too long", first + record(1, headers=varint(1) + nullable(b"h") + nullable(b"v", 9))
    yield (
        "a header's key that is not UTF-8",
        first + record(1, headers=varint(1) + nullable(b"\xff\xc0") + nullable(b"v")),
    )
    yield "10,000 headers", first + record(1, headers=varint(10_000) + (nullable(b"h") + nullable(None)) * 10_000)
    yield "record attributes", record(0, attributes=255) + record(1, attributes=8)
    yield "a time delta of ten bytes", first + framed(b"\0" + b"\xff" * 9 + b"\x7f" + second[3:])
    yield "a time delta of eleven bytes", first + framed(b"\0" + b"\xff" * 10 + b"\x01" + second[3:])


def _wrong_headers(codec: int, two: bytes, now_ms: int) -> Iterator[Way]:
    def of(body: bytes, **header: int) -> bytes:
        return batch(compressed(codec, body), codec, now_ms, **header)

    yield "counts one record", of(two, count=1)
    yield "counts one record, and two offsets", of(two, count=1, last_delta=1)
    yield "counts three records", of(two, count=3)
    yield "counts 2**31 - 1 records", of(two, count=2**31 - 1)
    yield "counts no records", of(two, count=0)
    yield "counts no records, and has none", of(b"", count=0)
    yield "counts -1 records", of(two, count=-1)
    yield "counts two records, and three offsets", of(two, last_delta=2)
    later = record(0) + record(1, timestamp_delta=500) + record(2, timestamp_delta=300)
    for name, time_ms in (("-1", -1), ("0", 0), ("that of the first record", now_ms - 1000), ("too late", now_ms)):
        yield f"a greatest time of {name}", of(later, count=3, max_timestamp_ms=time_ms)
    yield (
        "a record a day ahead, and a header of now",
        of(record(0) + record(1, timestamp_delta=DAY_MS), max_timestamp_ms=now_ms),
    )
    yield "a header a day ahead, and records of now", of(two, max_timestamp_ms=now_ms + DAY_MS)
    yield "a first time of -1", of(two, base_timestamp_ms=-1)
    yield "a first time of -2**63", of(two, base_timestamp_ms=-(2**63))
    yield "a first time of 2**63 - 1", of(two, base_timestamp_ms=2**63 - 1)
    yield (
        "a first time that overflows",
        of(record(0, timestamp_delta=-5000) + record(1, timestamp_delta=2**62), base_timestamp_ms=2**62),
    )
    yield "LogAppendTime, and no time", of(two, attributes=8, max_timestamp_ms=-1)
    yield "a control batch", of(two, attributes=32)


def _wrong_streams(codec: int, two: bytes, now_ms: int) -> Iterator[Way]:
    good = compressed(codec, two)
    yield "not compressed at all", batch(two, codec, now_ms)
    yield "no bytes", batch(b"", codec, now_ms)
    yield "compressed twice", batch(compressed(codec, good), codec, now_ms)
    yield "a batch in the batch", batch(compressed(codec, batch(two, NONE, now_ms)), codec, now_ms)
    yield "a byte behind the stream", batch(good + b"\0", codec, now_ms)
    yield "bytes behind the stream", batch(good + b"\x7f" * 40, codec, now_ms)
    yield "the stream twice", batch(good + good, codec, now_ms)
    yield (
        "the records in two streams",
        batch(compressed(codec, record(0)) + compressed(codec, two[len(record(0)) :]), codec, now_ms),
    )
    for name, stream in _streams_of(codec, two):
        yield name, batch(stream, codec, now_ms)
    for other, name in enumerate(CODECS):
        if other not in (NONE, codec):
            yield f"in fact {name}", batch(compressed(other, two), codec, now_ms)
    dice = Random(SEED + codec)
    for length in sorted(dice.sample(range(len(good)), CUTS)):
        yield f"cut to {length} bytes", batch(good[:length], codec, now_ms)
    yield from _flipped(good, codec, now_ms)


def _flipped(body: bytes, codec: int, now_ms: int) -> Iterator[Way]:
    dice = Random(SEED * 100 + codec)
    for number in range(FLIPS):
        place, bit = dice.randrange(len(body)), dice.randrange(8)
        changed = bytearray(body)
        changed[place] ^= 1 << bit
        yield f"flip {number}: bit {bit} of byte {place}", batch(bytes(changed), codec, now_ms)


def _streams_of(codec: int, two: bytes) -> Iterator[Way]:
    match codec:
        case 1:
            yield "a gzip header with a name", gzip_with(two, flags=8, extra=b"name\0")
            yield "a gzip header with reserved flags", gzip_with(two, flags=0xE0)
            yield "another method", gzip_with(two, method=7)
            yield "a wrong CRC-32", gzip_with(two, crc_error=1)
            yield "a wrong length", gzip_with(two, size_error=1)
            yield "no trailer", gzip_with(two)[:-8]
        case 2:
            yield "raw snappy", bytes(cramjam.snappy.compress_raw(two))
            yield "snappy of other versions", xerial(two)[:8] + struct.pack(">ii", 7, 7) + xerial(two)[16:]
            yield "a block of -1 bytes", xerial(two)[:16] + struct.pack(">i", -1)
            yield "a block of 2**31 - 1 bytes", xerial(two)[:16] + struct.pack(">i", 2**31 - 1) + b"x" * 9
            yield "a block of no bytes", xerial(two) + struct.pack(">i", 0)
            yield "the snappy stream format", bytes(cramjam.snappy.compress(two))
            yield (
                "a block that says 2**32 - 1 bytes",
                xerial(two)[:16] + struct.pack(">i", 6) + b"\xff\xff\xff\xff\x0f\x00",
            )
        case 3:
            yield "LZ4: linked blocks", lz4_frame(two, flags=0b0100_0000)
            yield "LZ4: a wrong header checksum", lz4_frame(two, checksum_error=1)
            yield "LZ4: the header checksum of old clients", _old_lz4(two)
            yield "LZ4: reserved flags", lz4_frame(two, flags=0b0110_0010)
            yield "LZ4: a dictionary", lz4_frame(two, flags=0b0110_0001, size=None)
            yield "LZ4: version 2", lz4_frame(two, flags=0b1010_0000)
            yield "LZ4: blocks of 4 MB", lz4_frame(two, block_descriptor=0x70)
            yield "LZ4: blocks of an unknown size", lz4_frame(two, block_descriptor=0x30)
            yield "LZ4: reserved bits beside the size", lz4_frame(two, block_descriptor=0x41)
            yield "LZ4: a right size", lz4_frame(two, flags=0b0110_1000, size=len(two))
            yield "LZ4: a wrong size", lz4_frame(two, flags=0b0110_1000, size=7)
            block = bytes(cramjam.lz4.compress_block(two, store_size=False))
            check = xxhash.xxh32(block).intdigest()
            yield "LZ4: a block checksum", lz4_frame(two, flags=0b0111_0000, block_checksum=check)
            yield "LZ4: a wrong block checksum", lz4_frame(two, flags=0b0111_0000, block_checksum=check ^ 1)
            total = xxhash.xxh32(two).intdigest()
            yield "LZ4: a content checksum", lz4_frame(two, flags=0b0110_0100, content_checksum=total)
            yield "LZ4: a wrong content checksum", lz4_frame(two, flags=0b0110_0100, content_checksum=total ^ 1)
            yield "LZ4: no content checksum", lz4_frame(two, flags=0b0110_0100)
            yield "LZ4: a stored block", lz4_frame(two, is_stored=True)
            yield "LZ4: no end mark", lz4_frame(two, ends=False)
            yield "LZ4: half an end mark", lz4_frame(two)[:-2]
            yield "LZ4: a block longer than blocks may be", lz4_frame(two, block_size=65_537)
            yield "LZ4: a block longer than there is", lz4_frame(two, block_size=60_000)
            yield "LZ4: the legacy frame", struct.pack("<II", 0x184C2102, len(block)) + block
            yield "LZ4: a skippable frame in front", struct.pack("<II", 0x184D2A50, 3) + b"abc" + lz4_frame(two)
        case 4:
            yield "zstd: a skippable frame in front", struct.pack("<II", 0x184D2A50, 3) + b"abc" + compressed(4, two)
            yield "zstd: a skippable frame behind", compressed(4, two) + struct.pack("<II", 0x184D2A50, 3) + b"abc"
            yield "zstd: a stored block", _zstd_stored(two)
            yield (
                "zstd: a block of 2**21 bytes",
                b"\x28\xb5\x2f\xfd\x00\x88" + struct.pack("<I", 1 | 2**21 - 1 << 3)[:3],
            )
            yield "zstd: a window of 2**41 bytes", b"\x28\xb5\x2f\xfd\x00\xff" + _zstd_stored(two)[6:]


def gzip_with(
    data: bytes,
    *,
    flags: int = 0,
    method: int = 8,
    extra: bytes = b"",
    crc_error: int = 0,
    size_error: int = 0,
) -> bytes:
    squeeze = zlib.compressobj(6, zlib.DEFLATED, -15)
    stream = squeeze.compress(data) + squeeze.flush()
    trailer = struct.pack("<II", zlib.crc32(data) ^ crc_error, len(data) ^ size_error)
    return b"\x1f\x8b" + bytes([method, flags]) + bytes(6) + extra + stream + trailer


def _old_lz4(data: bytes) -> bytes:
    """Kafka before 0.10 computed the header's checksum over the magic number as well (KIP-57)."""
    frame = bytearray(lz4_frame(data))
    frame[6] = xxhash.xxh32(bytes(frame[:6])).intdigest() >> 8 & 0xFF
    return bytes(frame)


def _zstd_stored(data: bytes) -> bytes:
    """A frame with a window descriptor of 1 KiB and one stored block."""
    return b"\x28\xb5\x2f\xfd\x00\x00" + struct.pack("<I", 1 | len(data) << 3)[:3] + data
