"""The compression codecs of a record batch: bytes in, bytes out, with a limit on the output.

Produced batches are opened to read their records (bmq/records/body_opening), and stay compressed in the log.
Formats as Kafka's Java client writes them: gzip, snappy in xerial framing (raw snappy, as librdkafka writes it, is read
too), LZ4 frames with independent blocks (KIP-57), zstd (KIP-110).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from struct import Struct
from typing import Any, Final

import cramjam

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Buffer = bytes | bytearray | memoryview

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_HELD_BYTES_MAX: Final = 1024 * 1024
_INT32: Final = Struct(">i")
_FIRST_GUESS_BYTES_MIN: Final = 16 * 1024


class Compression(IntEnum):
    """Bits 0-2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BadCompressedData(BmqError):
    """Compressed records that do not decompress, or to more than the limit."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnknownCompression(BmqError):
    """A codec number that Kafka does not use (5-7)."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


_BEGINNINGS: Final = {
    Compression.GZIP: b"\x1f\x8b",
    Compression.LZ4: b"\x04\x22\x4d\x18",
    Compression.ZSTD: b"\x28\xb5\x2f\xfd",
}
_ZSTD_SKIPPED: Final = b"\x2a\x4d\x18"  # the other three bytes of a frame that readers skip


def begins_as(codec: Compression, start: Buffer) -> bool:
    """Whether data with these first four bytes may be of the codec. Snappy without a frame begins with any byte."""
    beginning = _BEGINNINGS.get(codec)
    if beginning is None or bytes(start[: len(beginning)]) == beginning:
        return True
    return codec is Compression.ZSTD and bytes(start[1:4]) == _ZSTD_SKIPPED and 0x50 <= start[0] <= 0x5F


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """`data` compressed; without a level at Kafka's default ones (gzip 6, LZ4 9, zstd 3)."""
    match codec:
        case Compression.NONE:
            return bytes(data)
        case Compression.GZIP:
            return bytes(cramjam.gzip.compress(data, level=6 if level is None else level))
        case Compression.SNAPPY:
            return _compress_xerial(memoryview(data))
        case Compression.LZ4:
            compressor = _lz4_stream(level)
            compressor.compress(bytes(data))
            return bytes(compressor.finish())
        case Compression.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


class PartsCompressor:
    """As `compress`, for data that comes in parts; the same bytes as long as it is short."""

    def __init__(self, codec: Compression, level: int | None = None) -> None:
        self._codec = codec
        self._level = level
        self._held = bytearray()  # not compressed yet
        self._out = bytearray()
        self._stream: Any = None

    @property
    def size_bytes(self) -> int:
        """Of what is compressed so far."""
        return len(self._out)

    def add(self, part: Buffer) -> None:
        for place in range(0, len(part), _HELD_BYTES_MAX):
            self._held += part[place : place + _HELD_BYTES_MAX]
            if len(self._held) > _HELD_BYTES_MAX:
                self._compress_held()

    def finish(self) -> Buffer:
        """All of it. Nothing may be added any more."""
        if self._stream is None:
            return compress(self._codec, self._held, self._level)
        self._compress_held()
        self._out += memoryview(self._stream.finish())
        return self._out

    def _compress_held(self) -> None:
        if self._stream is None:
            self._stream = _stream(self._codec, self._level)
        self._stream.compress(bytes(self._held))
        self._out += memoryview(self._stream.flush())
        self._held.clear()


class _PlainStream:
    """A stream of cramjam's kind that does not compress."""

    def __init__(self, beginning: bytes = b"") -> None:
        self._out = bytearray(beginning)

    def compress(self, data: Buffer) -> None:
        self._out += data

    def flush(self) -> bytearray:
        out, self._out = self._out, bytearray()
        return out

    finish = flush


class _XerialStream:
    def __init__(self) -> None:
        self._blocks = _PlainStream(_XERIAL_HEADER)
        self._left = b""

    def compress(self, data: bytes) -> None:
        data = self._left + data
        end = len(data) - len(data) % _XERIAL_BLOCK_BYTES
        for place in range(0, end, _XERIAL_BLOCK_BYTES):
            self._blocks.compress(_xerial_block(data[place : place + _XERIAL_BLOCK_BYTES]))
        self._left = data[end:]

    def flush(self) -> bytearray:
        return self._blocks.flush()

    def finish(self) -> bytearray:
        if self._left:
            self._blocks.compress(_xerial_block(self._left))
        return self.flush()


class _ZstdStream:
    """With a window of 2 MiB, as level 3 has: without it the highest levels take hundreds of megabytes for any long body."""

    def __init__(self, level: int) -> None:
        parameter = zstd.CompressionParameter
        self._frame = zstd.ZstdCompressor(options={parameter.compression_level: level, parameter.window_log: 21})
        self._out = _PlainStream()

    def compress(self, data: bytes) -> None:
        self._out.compress(self._frame.compress(data))

    def flush(self) -> bytearray:
        return self._out.flush()

    def finish(self) -> bytearray:
        self._out.compress(self._frame.flush())
        return self.flush()


def _stream(codec: Compression, level: int | None) -> Any:
    match codec:
        case Compression.NONE:
            return _PlainStream()
        case Compression.GZIP:
            return cramjam.gzip.Compressor(level=6 if level is None else level)
        case Compression.SNAPPY:
            return _XerialStream()
        case Compression.LZ4:
            return _lz4_stream(level)
        case Compression.ZSTD:
            return _ZstdStream(3 if level is None else level)


def _lz4_stream(level: int | None) -> Any:
    # Kafka's Java reader refuses linked blocks, which are this library's default.
    return cramjam.lz4.Compressor(level=9 if level is None else level, content_checksum=False, block_linked=False)


def decompress(codec: Compression, data: Buffer, length_bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Buffer:
    """The inverse of `compress`. Raises BadCompressedData, also for a result longer than `length_bytes_max`.

    Never allocates much more than `length_bytes_max` bytes, whatever the data claims.
    """
    match codec:
        case Compression.NONE:
            if len(data) > length_bytes_max:
                raise BadCompressedData(f"records of {len(data)} bytes, {length_bytes_max} are allowed")
            return data
        case Compression.GZIP:
            return _decompress_bounded(cramjam.gzip.decompress_into, data, length_bytes_max)
        case Compression.SNAPPY:
            return _decompress_snappy(memoryview(data), length_bytes_max)
        case Compression.LZ4:
            return _decompress_bounded(cramjam.lz4.decompress_into, data, length_bytes_max)
        case Compression.ZSTD:
            return _decompress_bounded(cramjam.zstd.decompress_into, data, length_bytes_max)


def decompress_into(codec: Compression, data: Buffer, target: memoryview) -> int:
    """Decompress to the front of `target`; returns the number of bytes. For opening many batches into one buffer.

    Raises BadCompressedData, also when `target` is too small.
    """
    try:
        match codec:
            case Compression.NONE:
                if len(data) > len(target):
                    raise BadCompressedData(f"records of {len(data)} bytes, {len(target)} are allowed")
                target[: len(data)] = data
                return len(data)
            case Compression.SNAPPY:
                content = _decompress_snappy(memoryview(data), len(target))
                target[: len(content)] = content
                return len(content)
            case _ if not data:
                raise BadCompressedData("compressed records of no bytes")
            case Compression.GZIP:
                return cramjam.gzip.decompress_into(data, target)
            case Compression.LZ4:
                return cramjam.lz4.decompress_into(data, target)
            case Compression.ZSTD:
                return cramjam.zstd.decompress_into(data, target)
    except cramjam.DecompressionError as error:
        raise BadCompressedData(
            f"the compressed records are corrupt or longer than {len(target)} bytes: {error}"
        ) from error


def _decompress_bounded(decompress_into: Callable[[Any, Any], int], data: Buffer, length_bytes_max: int) -> memoryview:
    # These formats do not reliably give the result's length, and the library cannot stop half-way. So we guess the
    # buffer's size and retry with a larger one. Four attempts of quadrupling cost a third more at most.
    if not data:
        raise BadCompressedData("compressed records of no bytes")
    guess_bytes = min(max(4 * len(data), _FIRST_GUESS_BYTES_MIN), length_bytes_max)
    while True:
        target = bytearray(guess_bytes)
        try:
            length = decompress_into(data, target)
        except cramjam.DecompressionError as error:
            if guess_bytes >= length_bytes_max:
                raise BadCompressedData(
                    f"the compressed records are corrupt or longer than {length_bytes_max} bytes: {error}"
                ) from error
            guess_bytes = min(guess_bytes * 4, length_bytes_max)
        else:
            return memoryview(target)[:length]


def _compress_xerial(data: memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for position in range(0, len(data), _XERIAL_BLOCK_BYTES):
        out += _xerial_block(data[position : position + _XERIAL_BLOCK_BYTES])
    return bytes(out)


def _xerial_block(data: Buffer) -> bytes:
    block = cramjam.snappy.compress_raw(data)
    return b"".join((_INT32.pack(len(block)), memoryview(block)))


def snappy_blocks(data: memoryview) -> Iterator[memoryview]:
    """The blocks of raw snappy in xerial framing, or `data` itself without a frame. Raises BadCompressedData."""
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        yield data
        return
    position = len(_XERIAL_HEADER)
    if position > len(data):
        raise BadCompressedData("a snappy header runs past the end of the records")
    while position < len(data):
        if position + 4 > len(data):
            raise BadCompressedData("a snappy block header runs past the end of the records")
        (length,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise BadCompressedData(f"a snappy block of {length} bytes runs past the end of the records")
        yield data[position : position + length]
        position += length


def _decompress_snappy(data: memoryview, length_bytes_max: int) -> bytearray:
    out = bytearray()
    for block in snappy_blocks(data):
        _append_snappy_block(out, block, length_bytes_max)
    return out


def _append_snappy_block(out: bytearray, block: memoryview, length_bytes_max: int) -> None:
    try:
        length = cramjam.snappy.decompress_raw_len(block)
        if len(out) + length > length_bytes_max:
            raise BadCompressedData(f"the compressed records are longer than {length_bytes_max} bytes")
        out += memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise BadCompressedData(f"the compressed records are corrupt: {error}") from error
