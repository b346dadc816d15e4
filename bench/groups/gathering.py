"""Members join their groups, heartbeat and leave: when a group is settled."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from bench.cluster.admin import Connection, check, coordinator_of
from bench.groups.exchange import Exchange, connect
from bench.groups.members import Group, Member
from bench.groups.target import Target
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from bmq.protocol.messages.consumer_group_describe_response import Assignment, DescribedGroup

HEARTBEAT_S: Final = 3.0
"""At the most: less than both servers tell members of a settled group, so that both get the same load from them."""
STABLE: Final = "Stable"
SETTLED_WAIT_S: Final = 120.0
LOOK_INTERVAL_S: Final = 0.02

Place = tuple[Group, Member, Exchange, float]
"""A member, its connection, and the seconds until it joins."""


def rebalance(
    target: Target, topic: str, members: int, partitions: int, name: str, *, obeys: bool = True
) -> dict[str, Any]:
    """All members of a new group join at once, each on a connection of its own, and leave when it is settled.

    They heartbeat every HEARTBEAT_S, and earlier where the server says so if they are such as obey it, as Java's consumer
    and librdkafka do. `settled_s`: from the first heartbeat until the coordinator says that the group is Stable and that every member has
    what it should have. Raises LoadFailed, MemberRefused, AdminFailed.
    """
    group = Group(f"gathering-{name}", topic, partitions, member_ids(members))
    _, address = coordinator_of(target.addresses, group.name)
    with asyncio.Runner() as runner:
        return {"members": members, "partitions": partitions, **runner.run(_rebalance(address, group, obeys=obeys))}


async def _rebalance(address: str, group: Group, *, obeys: bool) -> dict[str, Any]:
    exchanges = await connect(address, len(group.members))
    try:
        began = time.monotonic()
        places = [(group, member, exchange, 0.0) for member, exchange in zip(group.members, exchanges, strict=True)]
        async with staying(places, HEARTBEAT_S, obeys=obeys) as check_members:
            assigned_s = await settle([group], lambda: are_stable(address, [group]), check_members)
            settled_s = time.monotonic() - began
        await _leave(group, exchanges)
    finally:
        for exchange in exchanges:
            exchange.close()
    return {"settled_s": round(settled_s, 4), "assigned_s": round(assigned_s, 4), "heartbeats": group.heartbeats}


def member_ids(count: int) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(count)]


@asynccontextmanager
async def staying(
    places: Iterable[Place], heartbeat_s: float, *, obeys: bool = False
) -> AsyncIterator[Callable[[], None]]:
    """Members join and stay until the block ends; the function that it gives raises what went wrong with one of them."""
    tasks = [asyncio.create_task(_stay(*place, heartbeat_s, obeys=obeys)) for place in places]

    def check_members() -> None:
        for task in tasks:
            if task.done():
                task.result()

    try:
        yield check_members
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def settle(groups: Sequence[Group], is_confirmed: Callable[[], bool], check_members: Callable[[], None]) -> float:
    """Return once all groups are settled and somebody confirms it; seconds until they were for their members alone.

    Raises LoadFailed after SETTLED_WAIT_S, and what `check_members` raises.
    """
    began = time.monotonic()
    while time.monotonic() - began < SETTLED_WAIT_S:
        check_members()
        if all(group.is_settled for group in groups):
            for_members_s = time.monotonic() - began
            if await asyncio.to_thread(is_confirmed):
                return for_members_s
        await asyncio.sleep(LOOK_INTERVAL_S)
    unsettled = [group.name for group in groups if not group.is_settled]
    raise LoadFailed(f"{len(unsettled)} groups were not settled within {SETTLED_WAIT_S:g} s: {unsettled[:5]}")


async def _stay(
    group: Group, member: Member, exchange: Exchange, delay_s: float, heartbeat_s: float, *, obeys: bool
) -> None:
    """Raises MemberRefused, ConnectionError."""
    await asyncio.sleep(delay_s)
    while True:
        sent = time.monotonic()
        group.answered(member, await exchange.heartbeat(member.heartbeat()))
        if not member.has_news:
            interval_s = min(heartbeat_s, member.told_interval_s) if obeys else heartbeat_s
            await asyncio.sleep(max(0.0, sent + interval_s - time.monotonic()))


async def _leave(group: Group, exchanges: Sequence[Exchange]) -> None:
    await asyncio.gather(
        *(exchange.heartbeat(member.leave()) for member, exchange in zip(group.members, exchanges, strict=True))
    )


# -- What the coordinator says -----------------------------------------------------------------------------------------


def are_stable(address: str, groups: Sequence[Group]) -> bool:
    """Whether their coordinator calls all of them Stable, with every member and what it should have. Raises AdminFailed."""
    request = ConsumerGroupDescribeRequest(group_ids=tuple(group.name for group in groups))
    with Connection(address) as connection:
        described: Sequence[DescribedGroup] = connection.call(ApiKey.CONSUMER_GROUP_DESCRIBE, request).groups
    for one in described:
        check(f"description of {one.group_id}", one.error_code, one.error_message)
    counts = {group.name: len(group.members) for group in groups}
    return len(described) == len(groups) and all(_is_stable(one, counts[one.group_id]) for one in described)


def _is_stable(described: DescribedGroup, member_count: int) -> bool:
    return (
        described.group_state == STABLE
        and len(described.members) == member_count
        and all(_places(one.assignment) == _places(one.target_assignment) for one in described.members)
    )


def _places(assignment: Assignment) -> set[tuple[str, int]]:
    return {(topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions}
