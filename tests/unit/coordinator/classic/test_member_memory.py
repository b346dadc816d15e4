"""What members may make the coordinator keep before anything of it is durable."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from bmq.protocol.messages.join_group_response import JoinGroupResponse
from bmq.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from tests.unit.coordinator.cluster import Cluster, request_context
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit

CONFIG = CoordinatorConfig(group_initial_rebalance_delay_ms=0, message_max_bytes=10_000)


def asked(
    group_id: str = "g", *metadata: bytes, member_id: str = "", instance_id: str | None = None
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        member_id=member_id,
        group_instance_id=instance_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name=f"p{number}", metadata=one) for number, one in enumerate(metadata or (b"",))
        ],
    )


async def join(
    coordinator: GroupCoordinator, request: JoinGroupRequest, version: int = 3, client_id: str = "client"
) -> JoinGroupResponse:
    return await coordinator.classic.join_group(request, request_context(version, client_id))


async def test_a_member_whose_record_would_be_too_large_alone_is_refused_at_once() -> None:
    cluster = Cluster(CONFIG, shard_count=1)
    coordinator = cluster.coordinator
    for request in (asked("g", bytes(10_001)), asked("g", bytes(10_001), bytes(20_000))):
        assert (await join(coordinator, request)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.memory.held_bytes == 0
    one_is_small = await join(coordinator, asked("g", bytes(10_001), bytes(100)))
    assert one_is_small.error_code == ErrorCode.NONE
    await coordinator.close()


async def test_a_member_may_name_a_bounded_number_of_protocols() -> None:
    cluster = Cluster(replace(CONFIG, group_protocols_max=3), shard_count=1)
    assert (await join(cluster.coordinator, asked("g", *([b""] * 4)))).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await join(cluster.coordinator, asked("g", *([b""] * 3)))).error_code == ErrorCode.NONE
    await cluster.coordinator.close()


@pytest.mark.parametrize("bounds", [{"members_bytes_per_shard_max": 40_000}, {"members_bytes_max": 40_000}])
async def test_groups_together_keep_a_bounded_number_of_bytes(bounds: dict[str, int]) -> None:
    cluster = Cluster(replace(CONFIG, **bounds), shard_count=1)  # type: ignore[arg-type]
    coordinator = cluster.coordinator
    codes = [(await join(coordinator, asked(f"g{number}", bytes(8_000)))).error_code for number in range(10)]
    assert codes == [ErrorCode.NONE] * 4 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 6
    assert coordinator.memory.held_bytes <= 40_000
    await coordinator.close()
    assert coordinator.memory.held_bytes == 0


async def test_member_ids_that_were_given_out_count_too() -> None:
    cluster = Cluster(replace(CONFIG, message_max_bytes=1_000_000, members_bytes_max=100_000), shard_count=1)
    codes = [
        (await join(cluster.coordinator, asked("g"), version=5, client_id="c" * 20_000)).error_code for _ in range(8)
    ]
    assert set(codes) == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert cluster.coordinator.memory.held_bytes <= 100_000
    await cluster.coordinator.close()


async def test_a_member_joins_again_though_there_is_no_room_for_another() -> None:
    cluster = Cluster(replace(CONFIG, members_bytes_max=15_000), shard_count=1)
    coordinator = cluster.coordinator
    joined = await join(coordinator, asked("g", bytes(9_000)))
    assert (await join(coordinator, asked("h", bytes(9_000)))).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = await join(coordinator, asked("g", bytes(9_000), member_id=joined.member_id))
    assert again.error_code == ErrorCode.NONE
    more = await join(coordinator, asked("g", bytes(9_000), bytes(9_000), member_id=joined.member_id))
    assert more.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    await coordinator.close()


async def test_a_static_member_comes_back_though_there_is_no_room_for_another() -> None:
    cluster = Cluster(replace(CONFIG, members_bytes_max=15_000), shard_count=1)
    for _ in range(3):
        back = await join(cluster.coordinator, asked("g", bytes(9_000), instance_id="i"), version=5)
        assert back.error_code == ErrorCode.NONE
    await cluster.coordinator.close()


async def test_members_that_leave_make_room() -> None:
    cluster = Cluster(CONFIG, shard_count=1)
    coordinator = cluster.coordinator
    for number in range(5):
        joined = await join(coordinator, asked(f"g{number}", bytes(9_000)))
        leaving = LeaveGroupRequest(group_id=f"g{number}", members=[MemberIdentity(member_id=joined.member_id)])
        left = await coordinator.classic.leave_group(leaving, request_context(5))
        assert left.error_code == ErrorCode.NONE
    await until(lambda: coordinator.memory.held_bytes < 5 * 1_500)
    await coordinator.close()
    await asyncio.sleep(0)
    assert coordinator.memory.held_bytes == 0
