"""A message that is read and written around one of its arrays is the same as read and written as a whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol import codec
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.array_codec import ArrayReader, ArrayWriter
from bmq.protocol.codec import array_codec, message_format
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from bmq.protocol.wire_turns import InTurns
from tests.support.gate_share import few_in_gate
from tests.unit.protocol.strategies import api_messages
from tests.unit.protocol.test_wire_turns import SOME, done, framed

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")


def arrays(kind: str, api_key: ApiKey, version: int) -> list[str]:
    fields = message_format(kind, api_key).entity(version).fields
    return [one.name for one in fields if one.is_array and one.tag is None]


def cases(kind: str) -> list[tuple[ApiKey, int, str]]:
    found = []
    for api_key, api in APIS.items():
        for version in {api.version_min, api.version_max}:
            found += [(api_key, version, name) for name in arrays(kind, api_key, version)]
    return found


class Seen:
    """Elements that a survey has shown, by their positions."""

    def __init__(self) -> None:
        self.elements: dict[int, Any] = {}

    def look(self, head: Any, element: Any, position: int) -> InTurns[None]:
        self.elements[position] = element
        yield


@few_in_gate(("api_key", "version", "name"), cases("request"), every=5, others=in_campaign)
@given(data=st.data())
@SOME
def test_a_request_is_read_as_a_whole_and_by_element(
    api_key: ApiKey, version: int, name: str, data: st.DataObject
) -> None:
    header, frame = framed(api_key, version, data.draw(api_messages("request", api_key, version)))
    whole = codec.decode_request(header, frame)
    reader, seen = ArrayReader(array_codec("request", api_key, version, name), frame, header.body_position), Seen()
    message, _ = done(reader.survey(seen.look))
    elements = getattr(whole, name)
    assert list(seen.elements.values()) == list(elements or ())
    assert reader.count == (-1 if elements is None else len(elements))
    again, position = [], reader.first
    for _ in seen.elements:
        (element, position), _ = done(reader.element(position))
        again.append(element)
    assert again == list(elements or ())
    assert getattr(message, name) == (None if elements is None else ())
    setattr(message, name, elements)
    assert message == whole


@few_in_gate(
    "api_key",
    [one for one, version, _ in cases("request") if version == APIS[one].version_max],
    every=5,
    others=in_campaign,
)
@given(data=st.data())
@SOME
def test_what_is_refused_as_a_whole_is_refused_in_a_survey(api_key: ApiKey, data: st.DataObject) -> None:
    version = APIS[api_key].version_max
    header, frame = framed(api_key, version, data.draw(api_messages("request", api_key, version)))
    body = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 3))):
        if len(body) > header.body_position:
            body[data.draw(st.integers(header.body_position, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    name = data.draw(st.sampled_from(arrays("request", api_key, version)))
    reader, seen = ArrayReader(array_codec("request", api_key, version, name), body, header.body_position), Seen()
    try:
        expected = codec.decode_request(header, body)
    except MalformedMessage:
        with pytest.raises(MalformedMessage):
            done(reader.survey(seen.look))
    else:
        message, _ = done(reader.survey(seen.look))
        setattr(message, name, getattr(expected, name))
        assert repr(message) == repr(expected)
        assert repr(list(seen.elements.values())) == repr(list(getattr(expected, name) or ()))


@few_in_gate(("api_key", "version", "name"), cases("response"), every=5, others=in_campaign)
@given(data=st.data())
@SOME
def test_a_response_is_written_as_a_whole_and_by_element(
    api_key: ApiKey, version: int, name: str, data: st.DataObject
) -> None:
    response = data.draw(api_messages("response", api_key, version))
    whole = codec.encode("response", api_key, version, response)
    elements = getattr(response, name)
    if elements is None:
        return
    writer = ArrayWriter(array_codec("response", api_key, version, name))
    for element in elements:
        done(writer.add(response.__class__, element))
    setattr(response, name, ())
    pieces, _ = done(writer.finish(response))
    assert b"".join(pieces) == whole


def test_long_answers_are_in_pieces_and_long_requests_in_turns() -> None:
    writer = ArrayWriter(array_codec("response", ApiKey.DESCRIBE_GROUPS, 5, "groups"))
    from bmq.protocol.messages.describe_groups_response import DescribedGroup, DescribeGroupsResponse

    for number in range(40_000):
        done(writer.add(DescribeGroupsResponse, DescribedGroup(group_id=f"g{number}", error_code=16)))
    pieces, _ = done(writer.finish(DescribeGroupsResponse()))
    assert len(pieces) > 3 and max(map(len, pieces)) < 300_000
    read = codec.decode("response", ApiKey.DESCRIBE_GROUPS, 5, b"".join(pieces))
    assert [one.group_id for one in read.groups] == [f"g{number}" for number in range(40_000)]
    keys = tuple(f"g{number}" for number in range(40_000))
    header, frame = framed(ApiKey.FIND_COORDINATOR, 6, FindCoordinatorRequest(coordinator_keys=keys))

    def look(head: Any, element: Any, position: int) -> InTurns[None]:
        return
        yield

    _, stops = done(
        ArrayReader(array_codec("request", header.api_key, 6, "coordinator_keys"), frame, header.body_position).survey(
            look
        )
    )
    assert stops >= 40_000 // 500 - 1


@pytest.mark.parametrize("name", ["timeout_ms", "nothing"])
def test_what_is_no_array_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        array_codec("request", ApiKey.LIST_OFFSETS, 10, name)
