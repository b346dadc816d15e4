"""Which LZ4 data all clients read alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.compression import Compression, compress
from bmq.records.lz4_frames import is_one_frame, is_one_frame_twin
from tests.conformance.broken_batches import LZ4_MAGIC, lz4_frame

pytestmark = pytest.mark.unit

DATA = bytes(range(256)) * 700


@pytest.mark.parametrize("answers", [is_one_frame, is_one_frame_twin], ids=["native", "twin"])
def test_one_frame_of_independent_blocks_and_nothing_behind_it(answers: Callable[[bytes], bool]) -> None:
    frame = compress(Compression.LZ4, DATA)
    assert answers(frame)
    assert answers(lz4_frame(b"abc", flags=0b0110_1000, size=3))
    assert answers(lz4_frame(b"abc", flags=0b0111_0100, block_checksum=1, content_checksum=2))
    assert not answers(lz4_frame(b"abc", flags=0b0111_0100, content_checksum=2))
    assert not answers(lz4_frame(b"abc", flags=0b0100_0000))
    assert not answers(lz4_frame(b"abc", ends=False))
    assert not answers(frame + b"\0")
    assert not answers(frame + frame)
    assert not any(answers(frame[:length]) for length in [*range(40), *range(len(frame) - 40, len(frame))])


@given(
    st.builds(
        lambda flags, rest: LZ4_MAGIC + bytes([flags]) + rest,
        st.sampled_from([0x40, 0x60, 0x64, 0x68, 0x6C, 0x70, 0x7C, 0x62, 0xE0]),
        st.lists(
            st.sampled_from([b"\0", bytes(4), b"\x01\0\0\0x", b"\x02\0\0\x80ab", b"\xff\xff\xff\x7f", b"\xff" * 4])
        ).map(b"".join),
    )
    | st.binary(max_size=30)
)
def test_the_twin_gives_the_kernels_answers(data: bytes) -> None:
    assert is_one_frame(data) == is_one_frame_twin(data)
    assert is_one_frame(memoryview(bytearray(data))) == is_one_frame_twin(bytearray(data))
