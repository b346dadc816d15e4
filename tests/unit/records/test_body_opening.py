"""Bodies are decompressed into what there is, and what does not fit is told from what is damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.compression import BadCompressedData, Compression, compress
from bmq.records.body_opening import BodyTooLong, open_body

pytestmark = pytest.mark.unit

CODECS = [codec for codec in Compression if codec is not Compression.NONE]
BODIES = [bytes(100_000), bytes(range(256)) * 400, b"x" * 16]


def target(size_bytes: int) -> memoryview:
    return memoryview(bytearray(size_bytes))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("body", BODIES, ids=len)
def test_what_fits_is_opened_and_what_does_not_is_too_long(codec: Compression, body: bytes) -> None:
    data = compress(codec, body)
    for room_bytes in (len(body), len(body) + 1, len(body) + 8, 2 * len(body)):
        room = target(room_bytes)
        assert open_body(codec, memoryview(data), room) == len(body)
        assert room[: len(body)] == body
    for room_bytes in (8, len(body) // 2, len(body) - 1):
        if room_bytes < len(body):
            with pytest.raises(BodyTooLong):
                open_body(codec, memoryview(data), target(room_bytes))


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_cut_short_is_damaged_and_not_too_long(codec: Compression) -> None:
    body = BODIES[1]
    data = compress(codec, body)
    for length in range(1, len(data), max(1, len(data) // 50)):
        with pytest.raises(BadCompressedData) as caught:
            open_body(codec, memoryview(data)[:length], target(2 * len(body)))
        assert not isinstance(caught.value, BodyTooLong)


def test_snappy_is_not_believed_how_long_it_is() -> None:
    for data in (b"\xff\xff\xff\xff\x0f\x00", b"\x80\x80\x80\x20\x00"):
        with pytest.raises(BadCompressedData) as caught:
            open_body(Compression.SNAPPY, memoryview(data), target(1000))
        assert not isinstance(caught.value, BodyTooLong)


@given(st.sampled_from(CODECS), st.binary(max_size=300), st.data())
def test_any_bytes_are_opened_or_refused(codec: Compression, body: bytes, data: st.DataObject) -> None:
    changed = bytearray(compress(codec, body))
    for _ in range(data.draw(st.integers(0, 3))):
        if changed:
            changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    room = target(1000)
    try:
        length = open_body(codec, memoryview(changed), room)
    except BadCompressedData:
        return
    assert 0 <= length <= len(room)
