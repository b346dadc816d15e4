"""Data that comes in parts is compressed as data in one piece."""

from __future__ import annotations

from random import Random

import pytest

from bmq.protocol.compression import Compression, PartsCompressor, compress, decompress

pytestmark = pytest.mark.unit

MIB = 1024 * 1024
LONG = Random(29).randbytes(1_500_000) + bytes(4 * MIB) + b"end"


def parts_of(data: bytes, part_bytes: int) -> list[bytearray]:
    return [bytearray(data[place : place + part_bytes]) for place in range(0, len(data), part_bytes)]


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("part_bytes", [30_000, MIB, 8 * MIB])
@pytest.mark.parametrize("level", [None, 1, 9])
def test_the_parts_are_compressed_as_a_whole(codec: Compression, part_bytes: int, level: int | None) -> None:
    compressor = PartsCompressor(codec, level)
    for part in parts_of(LONG, part_bytes):
        compressor.add(part)
        part[:] = bytes(len(part))  # nothing of a part is kept
    assert bytes(decompress(codec, compressor.finish())) == LONG


@pytest.mark.parametrize("codec", list(Compression))
def test_what_is_short_has_the_same_bytes(codec: Compression) -> None:
    for data in (b"", b"x", LONG[: MIB // 2]):
        compressor = PartsCompressor(codec)
        for part in parts_of(data, 1000):
            compressor.add(part)
        assert bytes(compressor.finish()) == compress(codec, data)


@pytest.mark.parametrize("codec", list(Compression))
def test_the_size_is_known_before_the_end(codec: Compression) -> None:
    compressor = PartsCompressor(codec)
    random = Random(7)
    for _ in range(8):
        compressor.add(random.randbytes(MIB))
    assert 5 * MIB < compressor.size_bytes <= 9 * MIB
