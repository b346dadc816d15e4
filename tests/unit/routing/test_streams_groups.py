"""Requests about streams groups on their way to the coordinators: what may be sent again, and what the answers mean then."""

from __future__ import annotations

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from bmq.protocol.messages.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from bmq.protocol.refusals import streams_heartbeat_refused
from bmq.routing.group_requests import GroupRequest, group_request

pytestmark = pytest.mark.unit


def beat(epoch: int, instance_id: str | None = None) -> GroupRequest:
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=epoch, instance_id=instance_id)
    return group_request(ApiKey.STREAMS_GROUP_HEARTBEAT, request, 1)


@pytest.mark.parametrize(
    ("epoch", "instance_id", "may_repeat"),
    [
        (3, None, False),
        (0, None, True),
        (-1, None, True),
        (0, "i", False),
        (3, "i", False),
        (-1, "i", True),
        (-2, "i", True),
    ],
)
def test_heartbeats_that_may_be_repeated(epoch: int, instance_id: str | None, may_repeat: bool) -> None:
    """A static member's second join would find the first one's place taken."""
    assert beat(epoch, instance_id).is_repeatable is may_repeat


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_departure_that_is_repeated_finds_nobody(epoch: int) -> None:
    part = streams_heartbeat_refused(ErrorCode.UNKNOWN_MEMBER_ID, "")
    answer = beat(epoch, "i").repeated(part)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", epoch)
    assert beat(3).repeated(part) is part


def test_a_description_may_be_sent_again() -> None:
    request = StreamsGroupTopologyDescriptionUpdateRequest(group_id="g", member_id="a")
    asked = group_request(ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, request, 0)
    assert asked.is_repeatable and list(asked.keys) == ["g"]
    part = asked.refusal("g", ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert (asked.response([part]).error_code, part.error_message) == (15, "COORDINATOR_NOT_AVAILABLE")
