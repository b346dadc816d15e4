"""A snapshot of a group shard that does not parse: the shard says so and stays away, the others go on."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from bmq.log.partition_log import StateSnapshot
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from bmq.protocol.messages.share_group_describe_request import ShareGroupDescribeRequest
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from bmq.protocol.request_context import by_itself
from tests.unit.broker.world import virtual
from tests.unit.coordinator.cluster import Cluster

pytestmark = pytest.mark.unit


async def codes_of(cluster: Cluster, group_id: str) -> list[int]:
    """What requests of three kinds are told of a group."""

    async def call(api_key: ApiKey, request: Any) -> Any:
        return await cluster.coordinator.handle(api_key, request, by_itself(api_key))

    beat = ShareGroupHeartbeatRequest(group_id=group_id, member_id="m", member_epoch=5)
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id)])
    describe = ShareGroupDescribeRequest(group_ids=[group_id])
    return [
        (await call(ApiKey.SHARE_GROUP_HEARTBEAT, beat)).error_code,
        (await call(ApiKey.OFFSET_FETCH, fetch)).groups[0].error_code,
        (await call(ApiKey.SHARE_GROUP_DESCRIBE, describe)).groups[0].error_code,
    ]


@pytest.mark.parametrize("data", [b"\0\0\0\x7fnonsense", b"\0" * 11, b"\0\0\0\x09" + bytes(8)])
def test_clients_are_told_to_try_again_and_the_log_says_why(data: bytes) -> None:
    async def main() -> None:
        cluster = Cluster()
        await cluster.coordinator.prepare("g")
        assert await codes_of(cluster, "g") == [ErrorCode.GROUP_ID_NOT_FOUND, 0, ErrorCode.GROUP_ID_NOT_FOUND]
        log = cluster.log_of("g")
        log.snapshots.append(StateSnapshot(log.high_watermark, data))
        heir = cluster.take_over()
        with structlog.testing.capture_logs() as lines:
            assert await codes_of(heir, "g") == [
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                ErrorCode.NOT_COORDINATOR,  # of the two the only one that older consumers retry
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
            ]
        warnings = [line for line in lines if line["log_level"] == "warning"]
        assert [(line["event"], line["shard"]) for line in warnings] == [
            ("group_shard_not_loaded", heir.coordinator.directory.number_of("g"))
        ]
        assert "the state cannot be read: a group snapshot" in warnings[0]["error"]
        sound = next(
            str(number)
            for number in range(99)
            if heir.coordinator.directory.number_of(str(number)) != heir.coordinator.directory.number_of("g")
        )
        assert await codes_of(heir, sound) == [ErrorCode.GROUP_ID_NOT_FOUND, 0, ErrorCode.GROUP_ID_NOT_FOUND]

    virtual(main)
