"""The hand-laid TailFetch response agrees with the codec: same values in, same bytes out, and back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol import codec
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.hot_tail import TAIL_FETCH_VERSION, encode_tail_response, parse_tail_response
from bmq.protocol.internal_messages import EpochStart, TailFetchResponse, TailPart
from tests.support.hot_messages import some_id
from tests.unit.protocol.strategies import api_messages

pytestmark = pytest.mark.unit

RESPONSES = api_messages("response", ApiKey.TAIL_FETCH, TAIL_FETCH_VERSION).map(some_id)


def encoded(message: TailFetchResponse, correlation_id: int = 7) -> bytes:
    return codec.encode_response(ApiKey.TAIL_FETCH, TAIL_FETCH_VERSION, correlation_id, message)


@given(message=RESPONSES, correlation_id=st.integers(0, 2**31 - 1), pieces=st.integers(1, 3))
def test_responses_are_written_as_the_codec_writes_them(
    message: TailFetchResponse, correlation_id: int, pieces: int
) -> None:
    message.error_code, message.error_message = 0, None

    def split(records: Any) -> list[memoryview]:
        step = max(1, -(-len(records) // pieces))
        return [memoryview(records)[at : at + step] for at in range(0, len(records), step)]

    buffers = encode_tail_response(correlation_id, [(part, split(part.records)) for part in message.partitions])
    assert b"".join(buffers) == encoded(message, correlation_id)


@given(message=RESPONSES)
def test_responses_parse_as_the_codec_parses_them(message: TailFetchResponse) -> None:
    assert parse_tail_response(bytearray(encoded(message))) == message
    assert parse_tail_response(encoded(message)) == message


@given(message=RESPONSES, data=st.data())
def test_hostile_responses_are_refused_and_nothing_worse(message: TailFetchResponse, data: st.DataObject) -> None:
    frame = bytearray(encoded(message))
    place = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(MalformedMessage):
        parse_tail_response(frame[:place])
    frame[place] ^= 1 << data.draw(st.integers(0, 7))
    try:
        parse_tail_response(frame)
    except MalformedMessage:
        pass


@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\0"])
def test_absurd_counts_are_refused_before_anything_is_allocated(count: bytes) -> None:
    with pytest.raises(MalformedMessage):
        parse_tail_response(b"\0\0\0\x01" + b"\0" + b"\0\0" + b"\0" + count + bytes(100))


def test_records_are_copied_neither_way() -> None:
    records = [memoryview(b"one"), memoryview(b"two")]
    part = TailPart(topic_id=UUID(int=1), partition=3, epochs=(EpochStart(leader_epoch=1, start_offset=0),))
    buffers = encode_tail_response(1, [(part, records), (part, ())])
    assert [buffer for buffer in buffers if isinstance(buffer, memoryview)] == records
    frame = bytearray(b"".join(buffers))
    first, second = parse_tail_response(frame).partitions
    assert isinstance(first.records, memoryview) and first.records.obj is frame
    assert bytes(first.records) == b"onetwo" and bytes(second.records) == b""
