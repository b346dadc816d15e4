"""Large messages are read and written a bounded part at a time, to the same bytes and values as at once."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.protocol import codec
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import RequestHeader, parse_request_header
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from bmq.protocol.turns import ELEMENTS_PER_TURN_MAX
from bmq.protocol.wire import ELEMENTS_MAX
from tests.support.gate_share import few_in_gate
from tests.unit.protocol.strategies import api_messages

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

SOME = settings(max_examples=max(settings.default.max_examples // 4, 5))  # type: ignore[union-attr]


def done(work: Generator[None, None, Any]) -> tuple[Any, int]:
    """The result, and how often it stopped before."""
    stops = 0
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, stops
        stops += 1


def framed(api_key: ApiKey, version: int, message: Any) -> tuple[RequestHeader, bytes]:
    frame = codec.encode_request(api_key, version, 7, "test", message)
    return parse_request_header(frame), frame


@few_in_gate("api_key", list(APIS), every=5, others=in_campaign)
@given(data=st.data())
@SOME
def test_in_turns_a_message_is_the_same_as_at_once(api_key: ApiKey, data: st.DataObject) -> None:
    version = data.draw(st.integers(APIS[api_key].version_min, APIS[api_key].version_max))
    header, frame = framed(api_key, version, data.draw(api_messages("request", api_key, version)))
    assert repr(done(codec.decode_request_in_turns(header, frame))[0]) == repr(codec.decode_request(header, frame))
    response = data.draw(api_messages("response", api_key, version))
    at_once = codec.encode_response(api_key, version, 7, response)
    assert done(codec.encode_response_in_turns(api_key, version, 7, response))[0] == at_once
    message = codec.decode_response(api_key, version, at_once)[1]
    assert repr(done(codec.decode_response_in_turns(api_key, version, at_once))[0]) == repr(message)


@few_in_gate("api_key", list(APIS), every=5, others=in_campaign)
@given(data=st.data())
@SOME
def test_what_is_refused_at_once_is_refused_in_turns(api_key: ApiKey, data: st.DataObject) -> None:
    version = data.draw(st.integers(APIS[api_key].version_min, APIS[api_key].version_max))
    header, frame = framed(api_key, version, data.draw(api_messages("request", api_key, version)))
    body = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 3))):
        if len(body) > header.body_position:
            body[data.draw(st.integers(header.body_position, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        expected = repr(codec.decode_request(header, body))
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            done(codec.decode_request_in_turns(header, body))
    else:
        assert repr(done(codec.decode_request_in_turns(header, body))[0]) == expected


def commits(topics: int, partitions: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=f"t{number}",
                partitions=[OffsetCommitRequestPartition(partition_index=index) for index in range(partitions)],
            )
            for number in range(topics)
        ],
    )


@pytest.mark.parametrize(("topics", "partitions"), [(1, 20_000), (100, 200), (10_000, 1)])
def test_a_turn_has_a_bounded_number_of_elements_however_they_are_nested(topics: int, partitions: int) -> None:
    header, frame = framed(ApiKey.OFFSET_COMMIT, 8, commits(topics, partitions))
    message, stops = done(codec.decode_request_in_turns(header, frame))
    elements = topics + topics * partitions
    assert message == codec.decode_request(header, frame)
    assert stops >= elements // (ELEMENTS_PER_TURN_MAX + 1) - 1
    response = OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=one.partition_index) for one in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )
    encoded, stops = done(codec.encode_response_in_turns(ApiKey.OFFSET_COMMIT, 8, 7, response))
    assert encoded == codec.encode_response(ApiKey.OFFSET_COMMIT, 8, 7, response)
    assert stops >= elements // (ELEMENTS_PER_TURN_MAX + 1) - 1


def test_the_elements_of_a_message_are_bounded_as_at_once() -> None:
    allowed = MetadataRequest(topics=[MetadataRequestTopic(name="")] * ELEMENTS_MAX)
    header, frame = framed(ApiKey.METADATA, 9, allowed)
    message, _ = done(codec.decode_request_in_turns(header, frame))
    assert len(message.topics) == ELEMENTS_MAX
    allowed.topics = [*allowed.topics, MetadataRequestTopic(name="")]  # type: ignore[misc]
    header, frame = framed(ApiKey.METADATA, 9, allowed)
    for decode in (
        lambda: codec.decode_request(header, frame),
        lambda: done(codec.decode_request_in_turns(header, frame)),
    ):
        with pytest.raises(MalformedMessage, match="elements"):
            decode()
