"""Decompresses the body of a produced batch into memory that the caller has, with a limit that no client's number moves.

Stricter than the codecs' own readers where clients differ: LZ4 has to be one frame (lz4_frames). Source: Kafka's
Compression.wrapForInput, KIP-57.
"""

from __future__ import annotations

from typing import Final

import cramjam

from bmq.protocol.compression import BadCompressedData, Compression, decompress_into, snappy_blocks
from bmq.records.buffers import Buffer
from bmq.records.lz4_frames import is_one_frame

_UNTOUCHED: Final = b"\x5a\xc3\x17\xe8\x2d\x91\x7b\x06"

_SNAPPY_GROWTH_MAX: Final = 22
"""Three bytes of snappy copy 64 at most."""


class BodyTooLong(BadCompressedData):
    """The decompressed records do not fit into the target."""


def open_body(codec: Compression, data: Buffer, target: memoryview) -> int:
    """Decompress to the front of `target`; returns the number of bytes.

    Raises BodyTooLong, and BadCompressedData for what is not of the codec. The target has 8 bytes or more.
    """
    if codec is Compression.SNAPPY:
        return _open_snappy(data, target)
    if not data:
        if codec is Compression.ZSTD:
            return 0  # no frame at all is a right end of a stream
        raise BadCompressedData("compressed records of no bytes")
    if codec is Compression.LZ4 and not is_one_frame(data):
        raise BadCompressedData("the records are not one LZ4 frame of independent blocks")
    # These decoders fill the target before they find it too small, and say the same of that and of damaged data.
    target[-len(_UNTOUCHED) :] = _UNTOUCHED
    try:
        return decompress_into(codec, data, target)
    except BadCompressedData as error:
        if bytes(target[-len(_UNTOUCHED) :]) != _UNTOUCHED:
            raise BodyTooLong(f"decompressed records of more than {len(target)} bytes") from error
        raise BadCompressedData(f"the records are not compressed by {codec.name.lower()}, or damaged") from error


def snappy_block_bytes(block: memoryview) -> int:
    """The decompressed length that a snappy block names. Raises BadCompressedData if it is none, or cannot have so many."""
    if not block:
        raise BadCompressedData("a snappy block of no bytes")
    try:
        length: int = cramjam.snappy.decompress_raw_len(block)
    except cramjam.DecompressionError as error:
        raise BadCompressedData("the records are not compressed by snappy, or damaged") from error
    if length > _SNAPPY_GROWTH_MAX * len(block):
        raise BadCompressedData(f"a snappy block of {len(block)} bytes that says it holds {length}")
    return length


def _open_snappy(data: Buffer, target: memoryview) -> int:
    used_bytes = 0
    for block in snappy_blocks(memoryview(data)):
        length = snappy_block_bytes(block)
        if length > len(target) - used_bytes:
            raise BodyTooLong(f"decompressed records of more than {len(target)} bytes")
        if length:
            try:
                used_bytes += cramjam.snappy.decompress_raw_into(block, target[used_bytes : used_bytes + length])
            except cramjam.DecompressionError as error:
                raise BadCompressedData("the records are not compressed by snappy, or damaged") from error
    return used_bytes
