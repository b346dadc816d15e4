"""What only goes its way from here, unless the feature it belongs to is switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.delete_share_group_offsets_request import DeleteShareGroupOffsetsRequest
from bmq.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from bmq.protocol.messages.streams_group_heartbeat_request import StreamsGroupHeartbeatRequest
from tests.unit.proxy.harness import Client, Proxy

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("api_key", "feature", "request_"),
    [
        (
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            "group.version",
            ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0),
        ),
        (
            ApiKey.STREAMS_GROUP_HEARTBEAT,
            "streams.version",
            StreamsGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0),
        ),
    ],
)
async def test_a_protocol_that_is_switched_off_is_refused(
    proxy: Proxy,
    client: Client,
    api_key: ApiKey,
    feature: str,
    request_: ConsumerGroupHeartbeatRequest | StreamsGroupHeartbeatRequest,
) -> None:
    proxy.controller.image = replace(proxy.controller.image, features={feature: 0})
    answer = await client.ask(api_key, 0, request_)
    assert (answer.error_code, answer.error_message) == (ErrorCode.UNSUPPORTED_VERSION, None), (
        "as Kafka: the code alone"
    )


async def test_descriptions_of_share_groups_are_refused_one_by_one(proxy: Proxy, client: Client) -> None:
    proxy.controller.image = replace(proxy.controller.image, features={"share.version": 0})
    answer = await client.ask(ApiKey.SHARE_GROUP_DESCRIBE, 1, ShareGroupDescribeRequest(group_ids=["a", "b"]))
    assert [(one.group_id, one.error_code, one.error_message) for one in answer.groups] == [
        ("a", ErrorCode.UNSUPPORTED_VERSION, None),
        ("b", ErrorCode.UNSUPPORTED_VERSION, None),
    ]


async def test_requests_for_offsets_of_share_groups_say_what_is_off(proxy: Proxy, client: Client) -> None:
    proxy.controller.image = replace(proxy.controller.image, features={"share.version": 0})
    answer = await client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, DeleteShareGroupOffsetsRequest(group_id="g"))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message == "share.version is 0: the protocol is switched off"
