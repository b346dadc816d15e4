"""What only goes its way from here, unless the feature it belongs to is switched off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
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
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert f"{feature} is 0" in answer.error_message
