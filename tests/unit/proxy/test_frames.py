"""The frame splitter: the same frames whatever pieces the bytes come in, and no memory before there are bytes."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.errors import MalformedMessage
from bmq.protocol.frames import FrameSplitter, ReceiveBuffer

pytestmark = pytest.mark.unit

SHARED_BYTES = 64
FRAME_BYTES_MAX = 1000


def splitter(at_first_max: int = 16) -> FrameSplitter:
    return FrameSplitter(ReceiveBuffer(SHARED_BYTES), FRAME_BYTES_MAX, at_first_max)


def feed(made: FrameSplitter, data: bytes, cuts: list[int]) -> list[bytearray]:
    """Hand over `data` in pieces of at most the sizes in `cuts` (then as large as they fit)."""
    frames: list[bytearray] = []
    position = 0
    sizes = iter(cuts)
    while position < len(data):
        buffer = made.get_buffer()
        assert len(buffer) > 0
        count = min(len(buffer), len(data) - position, next(sizes, 10**6))
        buffer[:count] = data[position : position + count]
        position += count
        frames += made.feed(count)
    return frames


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


@given(
    st.lists(st.binary(max_size=300), max_size=12),
    st.lists(st.integers(1, 80), max_size=200),
    st.integers(1, 200),
)
def test_any_chunking_gives_the_same_frames(payloads: list[bytes], cuts: list[int], at_first_max: int) -> None:
    made = splitter(at_first_max)
    frames = feed(made, b"".join(map(framed, payloads)), cuts)
    assert [bytes(frame) for frame in frames] == payloads
    assert made.held_bytes == 0


@given(st.lists(st.binary(min_size=1, max_size=300), min_size=2, max_size=6), st.lists(st.integers(1, 80), max_size=50))
def test_frames_are_writable_and_share_no_memory(payloads: list[bytes], cuts: list[int]) -> None:
    frames = feed(splitter(), b"".join(map(framed, payloads)), cuts)
    for frame in frames:
        memoryview(frame)[:] = bytes(len(frame))
    assert all(frame == bytes(len(frame)) for frame in frames)
    fresh = feed(splitter(), b"".join(map(framed, payloads)), cuts)
    assert [bytes(frame) for frame in fresh] == payloads


@given(st.integers(-(2**31), -1) | st.integers(FRAME_BYTES_MAX + 1, 2**31 - 1), st.lists(st.integers(1, 4), max_size=4))
def test_a_length_no_request_has_is_refused(length: int, cuts: list[int]) -> None:
    with pytest.raises(MalformedMessage):
        feed(splitter(), length.to_bytes(4, "big", signed=True), cuts)


@given(st.integers(100, FRAME_BYTES_MAX), st.integers(0, 99))
def test_what_is_held_follows_what_has_arrived(length: int, arrived: int) -> None:
    made = splitter(at_first_max=32)
    feed(made, length.to_bytes(4, "big") + bytes(arrived), [])
    assert made.held_bytes <= max(32, 2 * arrived, SHARED_BYTES * 2)


def test_the_longest_frame_is_taken() -> None:
    frames = feed(splitter(), framed(b"x" * FRAME_BYTES_MAX), [])
    assert frames == [bytearray(b"x" * FRAME_BYTES_MAX)]


@pytest.mark.parametrize("is_view_kept", [False, True])
def test_a_long_frame_grows_in_its_place_unless_it_is_looked_at(is_view_kept: bool) -> None:
    """Copies that are left behind would take as much memory again. A view that somebody keeps stays what it was."""
    made = splitter(at_first_max=100)
    payload = bytes(number % 251 for number in range(900))
    assert not feed(made, framed(payload)[:104], [])
    first = made._frame
    assert first is not None and len(first) >= 100
    views = [memoryview(first)] if is_view_kept else []
    sizes = []
    while True:
        room = len(made.get_buffer())
        sizes.append(made.held_bytes)
        arrived = min(room, len(payload) - made._filled)
        begin = made._filled
        made.get_buffer()[:arrived] = payload[begin : begin + arrived]
        done = made._frame
        if frames := made.feed(arrived):
            break
    assert frames == [payload]
    assert (done is first) is not is_view_kept
    assert all(after <= 2 * before for before, after in pairwise(sizes))
    assert [len(view) for view in views] == [len(first)] * len(views)
