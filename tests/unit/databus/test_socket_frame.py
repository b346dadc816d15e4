"""Frames of the socket: they come back as they were, and wrong ones are refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.databus.record_fields import NO_HEADERS, encoded_headers
from bmq.databus.socket_frame import (
    Answer,
    BadFrame,
    Code,
    Request,
    encoded_accepted,
    encoded_answer,
    encoded_request,
    frame_length,
    parse_answer,
    parse_request,
    request_id_at,
)

pytestmark = pytest.mark.unit

FRAME_BYTES_MAX = 1_000
BYTES = st.none() | st.binary(max_size=20)


@given(
    request_id=st.integers(0, 2**32 - 1),
    timestamp_ms=st.integers(-1, 2**63 - 1),
    channel=st.binary(max_size=255),
    key=BYTES,
    value=BYTES,
    header=BYTES,
)
def test_a_request_comes_back(
    request_id: int, timestamp_ms: int, channel: bytes, key: bytes | None, value: bytes | None, header: bytes | None
) -> None:
    request = Request(request_id, timestamp_ms, channel, key, value, encoded_headers([("name", header)]))
    data = b"before" + encoded_request(request) + b"behind"
    end = 6 + frame_length(data, 6, FRAME_BYTES_MAX)
    assert end == len(data) - 6
    assert parse_request(data, 6, end) == request
    assert request_id_at(data, 6) == request_id


@given(data=st.binary(min_size=30, max_size=80), length=st.integers(0, 2**32 - 1))
def test_any_bytes_are_a_request_or_refused(data: bytes, length: int) -> None:
    frame = length.to_bytes(4, "big") + data
    try:
        end = frame_length(frame, 0, FRAME_BYTES_MAX)
        if end <= len(frame):
            parse_request(frame, 0, end)
    except BadFrame as error:
        assert str(error)


@given(data=st.binary(min_size=24, max_size=60))
def test_bytes_behind_a_right_head_are_fields_or_refused(data: bytes) -> None:
    whole = encoded_request(Request(1, -1, b"c", None, None, NO_HEADERS))[4:19] + data
    frame = len(whole).to_bytes(4, "big") + whole
    try:
        request = parse_request(frame, 0, len(frame))
    except BadFrame as error:
        assert str(error)
    else:
        assert encoded_request(request) == frame


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({4: 2}, "frames of version 2 are not known"),
        ({5: 9}, "a request of kind 9 is not known"),
        ({10: 0x80}, "a timestamp of"),
        ({20: 0x7F}, "a length of"),
    ],
)
def test_a_wrong_field_is_named(change: dict[int, int], sentence: str) -> None:
    frame = bytearray(encoded_request(Request(1, 0, b"c", b"k", b"v", NO_HEADERS)))
    for place, value in change.items():
        frame[place] = value
    with pytest.raises(BadFrame, match=sentence):
        parse_request(frame, 0, len(frame))


@pytest.mark.parametrize("length", [0, 5, FRAME_BYTES_MAX + 1, 2**32 - 1])
def test_a_length_that_is_not_allowed_is_refused(length: int) -> None:
    with pytest.raises(BadFrame, match=f"a frame of {length} bytes is too"):
        frame_length(length.to_bytes(4, "big"), 0, FRAME_BYTES_MAX)


@given(
    code=st.sampled_from(Code),
    request_id=st.integers(0, 2**32 - 1),
    number=st.integers(-1, 2**63 - 1),
    sentence=st.text(max_size=50),
)
def test_an_answer_comes_back(code: Code, request_id: int, number: int, sentence: str) -> None:
    sentence = sentence.encode("utf-8", "replace").decode()
    answer = Answer(code, request_id, number, 5, sentence)
    data = encoded_answer(answer)
    assert parse_answer(b"x" + data + b"y", 1) == (answer, len(data) + 1)


def test_the_short_form_of_an_answer_is_the_same() -> None:
    assert encoded_accepted(7, 9) == encoded_answer(Answer(Code.ACCEPTED, 7, 9))


def test_a_long_sentence_is_cut() -> None:
    answer, _ = parse_answer(encoded_answer(Answer(Code.RETRY, 1, -1, 0, "ä" * 5_000)))
    assert 400 < len(answer.sentence) < 1_001
