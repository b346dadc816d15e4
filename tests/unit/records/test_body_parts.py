"""A body that is opened in parts has the bytes that it has in one piece, or is refused, and never takes much memory."""

from __future__ import annotations

import gzip
import tracemalloc
from struct import pack

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.compression import BadCompressedData, Compression, compress
from bmq.records.body_opening import BodyTooLong, open_body
from bmq.records.body_parts import HELD_BYTES_MAX, PART_BYTES_MAX, body_parts

pytestmark = pytest.mark.unit

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
MIXED = bytes(range(256)) * 16_000 + bytes(2_000_000) + b"end"
MIB = 1024 * 1024


def joined(codec: Compression, data: bytes) -> bytes:
    return b"".join(bytes(part) for part in body_parts(codec, memoryview(bytearray(data))))


def frame_of_lz4(body: bytes, **options: object) -> bytes:
    return bytes(lz4.frame.compress(body, block_linked=False, **options))


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("body", [b"", b"x", MIXED, bytes(PART_BYTES_MAX), bytes(PART_BYTES_MAX + 1)], ids=len)
def test_the_parts_are_the_body(codec: Compression, body: bytes) -> None:
    assert joined(codec, compress(codec, body)) == body


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("checksums", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("is_length_stored", [False, True])
def test_every_kind_of_lz4_frame(block_size: int, checksums: tuple[bool, bool], is_length_stored: bool) -> None:
    of_blocks, of_content = checksums
    body = MIXED + zstandard.compress(MIXED)[:100]
    data = frame_of_lz4(
        body, block_size=block_size, block_checksum=of_blocks, content_checksum=of_content, store_size=is_length_stored
    )
    assert joined(Compression.LZ4, data) == body
    changed = bytearray(data)
    changed[6] ^= 1  # of the stored length or of the header's checksum
    with pytest.raises(BadCompressedData):
        joined(Compression.LZ4, bytes(changed))
    if of_content:
        with pytest.raises(BadCompressedData):
            joined(Compression.LZ4, data[:-1] + bytes([data[-1] ^ 1]))


SKIPPED = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"
Z = bytes(cramjam.zstd.compress(b"records " * 99))
G = gzip.compress(b"records " * 99, mtime=0)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (Compression.ZSTD, b""),
        (Compression.ZSTD, Z + Z),
        (Compression.ZSTD, SKIPPED + Z + SKIPPED + Z),
        (Compression.ZSTD, SKIPPED),
        (Compression.ZSTD, Z + b"\0"),
        (Compression.ZSTD, Z + Z[:3]),
        (Compression.ZSTD, SKIPPED[:9]),
        (Compression.ZSTD, Z[:-1]),
        (Compression.GZIP, b""),
        (Compression.GZIP, G + G),
        (Compression.GZIP, G + gzip.compress(b"", mtime=0)),
        (Compression.GZIP, G + b"\x1f"),
        (Compression.GZIP, G + bytes(9)),
        (Compression.GZIP, G[:-1]),
        (Compression.GZIP, G[:-6] + b"\0\1" + G[-4:]),
        (Compression.LZ4, b""),
        (Compression.SNAPPY, b""),
        (Compression.SNAPPY, b"\xff\xff\xff\xff\x0f\x00"),
        (Compression.SNAPPY, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\0\0\0\0"),
    ],
)
def test_streams_of_several_frames_or_none_are_judged_as_in_one_piece(codec: Compression, data: bytes) -> None:
    target = memoryview(bytearray(10_000))
    try:
        expected = bytes(target[: open_body(codec, bytearray(data), target)])
    except BadCompressedData:
        with pytest.raises(BadCompressedData):
            joined(codec, data)
    else:
        assert joined(codec, data) == expected


@given(st.sampled_from(CODECS), st.binary(max_size=300), st.data())
def test_changed_bytes_are_opened_alike_or_refused(codec: Compression, body: bytes, data: st.DataObject) -> None:
    changed = bytearray(compress(codec, body))
    for _ in range(data.draw(st.integers(0, 3))):
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    del changed[len(changed) - data.draw(st.integers(0, min(2, len(changed)))) :]
    target = memoryview(bytearray(100_000))
    try:
        opened = joined(codec, bytes(changed))
    except BadCompressedData:
        return
    assert bytes(target[: open_body(codec, changed, target)]) == opened


def bomb(codec: Compression, mebibytes: int) -> bytes:
    """Zeros, compressed without having them all in memory."""
    if codec is Compression.ZSTD:
        header = b"\x28\xb5\x2f\xfd\x00\x58"  # a window of 2 MiB
        block = ((128 << 10) << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
        last = (1 << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\0"
        return header + block * (8 * mebibytes) + last
    if codec is Compression.SNAPPY:
        block = bytes(cramjam.snappy.compress_raw(bytes(MIB)))
        return b"\x82SNAPPY\0" + pack(">ii", 1, 1) + (pack(">i", len(block)) + block) * mebibytes
    if codec is Compression.GZIP:
        return gzip.compress(bytes(MIB)) * mebibytes
    compressor = cramjam.lz4.Compressor(level=1, content_checksum=True, block_linked=False)
    for _ in range(mebibytes):
        compressor.compress(bytes(MIB))
    return bytes(compressor.finish())


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_takes_a_bounded_buffer(codec: Compression) -> None:
    """What Python allocates; the window of zstd is its decoder's own."""
    data = memoryview(bytearray(bomb(codec, 100)))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        length = sum(map(len, body_parts(codec, data)))
        grown = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert 100 * MIB <= length <= 100 * MIB + 1
    assert grown < 6 * MIB


def test_a_window_of_zstd_is_bounded_once_it_is_filled() -> None:
    wide = zstandard.ZstdCompressionParameters(window_log=27, write_content_size=False)
    compressing = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    small = compressing.compress(bytes(3 * MIB)) + compressing.flush()
    assert len(joined(Compression.ZSTD, small)) == 3 * MIB
    assert small[4] & 0x20 == 0 and small[5] >> 3 == 17
    data = bomb(Compression.ZSTD, HELD_BYTES_MAX // MIB + 8)
    for window in (b"\x00\x88", b"\xa0" + pack("<I", 100 * MIB)):  # a window of 128 MiB, and one as long as its content
        for before in (b"", SKIPPED, Z):
            with pytest.raises(BodyTooLong):
                for _ in body_parts(Compression.ZSTD, memoryview(bytearray(before + data[:4] + window + data[6:]))):
                    pass


def test_a_block_of_snappy_is_bounded() -> None:
    data = bytes(cramjam.snappy.compress_raw(bytes(HELD_BYTES_MAX + 1)))
    with pytest.raises(BodyTooLong):
        joined(Compression.SNAPPY, data)
    fits = bytes(cramjam.snappy.compress_raw(bytes(HELD_BYTES_MAX)))
    assert sum(map(len, body_parts(Compression.SNAPPY, memoryview(bytearray(fits))))) == HELD_BYTES_MAX
