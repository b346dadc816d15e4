"""Heartbeats and offsets of share groups that are wrong. The whole table: tests/unit/proxy_share/test_bad_input.py."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_membership.test_share_api import Shares

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "fields",
    [
        {"member_id": "m" * 37},
        {"member_id": ""},
        {"member_id": " "},
        {"member_id": None},
        {"group_id": " "},
        {"rack_id": ""},
        {"subscribed_topic_names": None},
        {"subscribed_topic_names": []},
        {"member_epoch": -2},
        {"member_epoch": -(2**31)},
    ],
)
def test_heartbeats_that_are_wrong_leave_no_group_behind(fields: dict[str, Any]) -> None:
    async def main() -> None:
        shares = Shares()
        sound: dict[str, Any] = {
            "group_id": "g",
            "member_id": "m" * 36,
            "member_epoch": 0,
            "subscribed_topic_names": ["t"],
        }
        request = ShareGroupHeartbeatRequest(**{**sound, **fields})
        answer = await shares.call(ApiKey.SHARE_GROUP_HEARTBEAT, request)
        assert answer.error_code == ErrorCode.INVALID_REQUEST and answer.error_message
        assert not any(shard.group_ids() for shard in shares.coordinator.directory.ready.values())
        assert (await shares.call(ApiKey.SHARE_GROUP_HEARTBEAT, ShareGroupHeartbeatRequest(**sound))).error_code == 0

    virtual(main)


def test_a_group_of_consumers_is_not_converted_and_stays() -> None:
    async def main() -> None:
        shares = Shares()
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        joined = await shares.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        assert joined.error_code == 0
        for epoch in (0, 5, -1):
            answer = await shares.beat("a", epoch, "t")
            assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND, "a group of another type has the name"
        assert (await shares.alter(1, 0)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert shares.state_keys() == set()
        left = ConsumerGroupHeartbeatRequest(group_id="g", member_id=joined.member_id, member_epoch=-1)
        assert (await shares.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, left)).error_code == 0
        assert (await shares.beat("a", 0, "t")).error_code == ErrorCode.GROUP_ID_NOT_FOUND, "nor when it is empty"

    virtual(main)
