"""Decompresses the body of a produced batch in parts, so that a long one takes a bounded buffer.

Accepts what body_opening accepts. Two things cannot be had in parts: the window of a zstd frame and a snappy block, whose copies
may reach back over all of it; both are bounded by HELD_BYTES_MAX. Source: Kafka's Compression.wrapForInput, RFC 1952, RFC 8878,
the LZ4 frame format.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from typing import Final

import cramjam
from xxhash import xxh32, xxh32_intdigest

from bmq.protocol.compression import BadCompressedData, Compression, snappy_blocks
from bmq.records.body_opening import BodyTooLong, snappy_block_bytes
from bmq.records.buffers import Buffer
from bmq.records.lz4_frames import is_one_frame

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PART_BYTES_MAX: Final = 1024 * 1024
"""Longest part of gzip, zstd and uncompressed bodies. One of LZ4 has up to 4 MiB, one of snappy up to HELD_BYTES_MAX."""
HELD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Longest body that its codec needs in one piece. zstd has windows that large from level 20 on; its level 19 has 8 MiB."""
_FED_BYTES: Final = 64 * 1024
_GZIP_WINDOW_BITS: Final = 31
_ZSTD_WINDOW_LOG_MAX: Final = 27
"""Readers of Kafka's clients take no more unless they are told to."""
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_LZ4_BLOCK_BYTES: Final = {0x40: 64 << 10, 0x50: 256 << 10, 0x60: 1 << 20, 0x70: 4 << 20}
_WORD: Final = Struct("<I")
_LONG: Final = Struct("<Q")


def body_parts(codec: Compression, data: memoryview) -> Iterator[Buffer]:
    """The decompressed body, back to back; a part is valid until the next one is asked for, and may be empty.

    Between two parts a bounded amount of `data` is read. Raises BodyTooLong for what would be held and is too long, and
    BadCompressedData for what is not of the codec.
    """
    match codec:
        case Compression.NONE:
            return _slices(data)
        case Compression.SNAPPY:
            return _snappy_parts(data)
        case Compression.GZIP:
            return _gzip_parts(data)
        case Compression.LZ4:
            return _lz4_parts(data)
        case Compression.ZSTD:
            return _zstd_parts(data)


def _slices(data: memoryview) -> Iterator[Buffer]:
    for place in range(0, len(data), PART_BYTES_MAX):
        yield data[place : place + PART_BYTES_MAX]


def _gzip_parts(data: memoryview) -> Iterator[Buffer]:
    if not data:
        raise BadCompressedData("compressed records of no bytes")
    place = 0
    while place < len(data):  # one member after the other
        member = zlib.decompressobj(_GZIP_WINDOW_BITS)
        fed: Buffer = b""
        part = b""
        try:
            while not member.eof:
                if not fed and len(part) < PART_BYTES_MAX:
                    fed = data[place : place + _FED_BYTES]
                    place += len(fed)
                    if not fed:
                        raise BadCompressedData("the records are cut short")
                part = member.decompress(fed, PART_BYTES_MAX)
                fed = member.unconsumed_tail
                yield part
        except zlib.error as error:
            raise _damaged("gzip") from error
        place -= len(member.unused_data)


def _zstd_parts(data: memoryview) -> Iterator[Buffer]:
    place = 0
    while place < len(data):  # one frame after the other
        is_held = _zstd_window_bytes(data[place : place + 14]) > HELD_BYTES_MAX
        frame_bytes = 0
        try:
            frame = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX})
            while not frame.eof:
                fed: Buffer = b""
                if frame.needs_input:
                    fed = data[place : place + _FED_BYTES]
                    place += len(fed)
                    if not fed:
                        raise BadCompressedData("the records are cut short")
                part = frame.decompress(fed, PART_BYTES_MAX)
                frame_bytes += len(part)
                if is_held and frame_bytes > HELD_BYTES_MAX:
                    raise BodyTooLong(f"a zstd frame of more than {HELD_BYTES_MAX} bytes, with a window as large")
                yield part
        except zstd.ZstdError as error:
            raise _damaged("zstd") from error
        place -= len(frame.unused_data)


def _zstd_window_bytes(header: memoryview) -> int:
    """How far back copies of the frame with this header may reach; 0 for what is no such frame, or cut short."""
    if len(header) < 6 or bytes(header[:4]) != _ZSTD_MAGIC:
        return 0
    descriptor = header[4]
    if not descriptor & 0x20:
        window_log, eighths = 10 + (header[5] >> 3), header[5] & 7
        return (1 << window_log) + ((1 << window_log) >> 3) * eighths
    # The whole content is the window. Its length has 1, 2, 4 or 8 bytes, behind the dictionary's number.
    place = 5 + (0, 1, 2, 4)[descriptor & 3]
    length = 1 << (descriptor >> 6)
    return int.from_bytes(header[place : place + length], "little")


def _lz4_parts(data: memoryview) -> Iterator[Buffer]:
    if not is_one_frame(data):
        raise BadCompressedData("the records are not one LZ4 frame of independent blocks")
    flags, block_bytes_max = data[4], _LZ4_BLOCK_BYTES.get(data[5])
    has_block_checksums, has_content_bytes, has_content_checksum = flags & 0x10, flags & 0x08, flags & 0x04
    place = 14 if has_content_bytes else 6
    if block_bytes_max is None or xxh32_intdigest(data[4:place]) >> 8 & 0xFF != data[place]:
        raise _damaged("lz4")
    place += 1
    target: memoryview | None = None
    digest = xxh32()
    content_bytes = 0
    while word := _WORD.unpack_from(data, place)[0]:
        length = word & 0x7FFF_FFFF
        block = data[place + 4 : place + 4 + length]
        place += 4 + length
        if has_block_checksums:
            if xxh32_intdigest(block) != _WORD.unpack_from(data, place)[0]:
                raise _damaged("lz4")
            place += 4
        part: Buffer = block
        if word == length:
            if target is None:
                target = memoryview(bytearray(block_bytes_max))
            try:
                used = cramjam.lz4.decompress_block_into(block, target, output_len=block_bytes_max)
            except cramjam.DecompressionError as error:
                raise _damaged("lz4") from error
            part = target[:used]
        elif length > block_bytes_max:
            raise _damaged("lz4")
        content_bytes += len(part)
        if has_content_checksum:
            digest.update(part)
        yield part
    place += 4
    if has_content_bytes and content_bytes != _LONG.unpack_from(data, 6)[0]:
        raise _damaged("lz4")
    if has_content_checksum and digest.intdigest() != _WORD.unpack_from(data, place)[0]:
        raise _damaged("lz4")


def _snappy_parts(data: memoryview) -> Iterator[Buffer]:
    target = memoryview(bytearray(PART_BYTES_MAX))
    for block in snappy_blocks(data):
        length = snappy_block_bytes(block)
        if length > HELD_BYTES_MAX:
            raise BodyTooLong(f"a snappy block of {length} bytes, {HELD_BYTES_MAX} are allowed")
        if length > len(target):
            target = memoryview(mmap(-1, HELD_BYTES_MAX))  # pages that are not needed are never touched
        if length:
            try:
                cramjam.snappy.decompress_raw_into(block, target[:length])
            except cramjam.DecompressionError as error:
                raise _damaged("snappy") from error
        yield target[:length]


def _damaged(codec_name: str) -> BadCompressedData:
    return BadCompressedData(f"the records are not compressed by {codec_name}, or damaged")
