"""Checksums of chunks: by the kernel, its twin, and one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from struct import pack

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs import chunk_checksums_native, chunk_checksums_twin
from bmq.hdfs.checksums import CRC_OF_TYPE, wrong_chunk
from bmq.hdfs.chunk_checksums import CHECKSUM_BYTES
from bmq.hdfs.proto.transfer_pb2 import ChecksumType

pytestmark = pytest.mark.unit

MAKERS = (chunk_checksums_native, chunk_checksums_twin)
Make = Callable[[Sequence[bytes], int], bytes]
Write = Callable[[bytearray, int, int, int], None]


def one_by_one(data: bytes, chunk_bytes: int) -> bytes:
    found = [crc32c(data[at : at + chunk_bytes]) for at in range(0, len(data), chunk_bytes)]
    return pack(f">{len(found)}I", *found)


def test_the_processor_of_this_machine_is_used() -> None:
    """Else the tests below would compare the twin with itself."""
    assert chunk_checksums_native.has_instruction()


@pytest.mark.parametrize("make", [maker.chunk_checksums for maker in MAKERS])
@given(st.lists(st.binary(max_size=200), max_size=8), st.integers(1, 40))
def test_checksums_do_not_see_where_buffers_end(make: Make, pieces: list[bytes], chunk_bytes: int) -> None:
    assert make(pieces, chunk_bytes) == one_by_one(b"".join(pieces), chunk_bytes)


@pytest.mark.parametrize("make", [maker.chunk_checksums for maker in MAKERS])
def test_every_length_of_a_packet(make: Make) -> None:
    data = Random(3).randbytes(512 * 12)
    for size_bytes in [*range(0, len(data), 7), len(data)]:
        assert make((data[:size_bytes],), 512) == one_by_one(data[:size_bytes], 512)


@pytest.mark.parametrize("write", [maker.write_chunk_checksums for maker in MAKERS])
@given(st.binary(max_size=600), st.integers(1, 40), st.integers(0, 9), st.integers(0, 9))
def test_they_are_written_in_front_of_the_data(
    write: Write, data: bytes, chunk_bytes: int, before: int, between: int
) -> None:
    expected = one_by_one(data, chunk_bytes)
    packet = bytearray(b"h" * before + bytes(len(expected)) + b"b" * between + data)
    write(packet, before, len(packet) - len(data), chunk_bytes)
    assert packet == b"h" * before + expected + b"b" * between + data


def test_nothing_is_written_over_the_data() -> None:
    packet = bytearray(bytes(40) + bytes(512 * 12))
    with pytest.raises(ValueError, match="no room for 48 bytes of checksums between 0 and 40"):
        chunk_checksums_native.write_chunk_checksums(packet, 0, 40, 512)
    assert packet == bytes(len(packet))


@pytest.mark.parametrize("kind", [ChecksumType.CHECKSUM_CRC32C, ChecksumType.CHECKSUM_CRC32])
@given(st.data())
def test_the_first_wrong_chunk_is_found(kind: int, data: st.DataObject) -> None:
    crc = CRC_OF_TYPE[kind]
    content = bytearray(data.draw(st.binary(min_size=1, max_size=300)))
    chunk_bytes = data.draw(st.integers(1, 40))
    chunks = range(0, len(content), chunk_bytes)
    checksums = pack(f">{len(chunks)}I", *[crc(memoryview(content)[at : at + chunk_bytes]) for at in chunks])
    assert wrong_chunk(crc, memoryview(content), chunk_bytes, checksums) is None
    assert wrong_chunk(crc, memoryview(content), chunk_bytes, memoryview(bytearray(checksums))) is None
    flipped = data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3, unique=True))
    for at in flipped:
        content[at] ^= 0x40
    assert wrong_chunk(crc, memoryview(content), chunk_bytes, checksums) == min(flipped) // chunk_bytes
    assert len(checksums) == len(chunks) * CHECKSUM_BYTES
