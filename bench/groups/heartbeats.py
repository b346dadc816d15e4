"""Thousands of members in groups that nothing happens to: what their heartbeats cost the servers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from bench.cluster.admin import coordinators_of
from bench.core.client import Client, Load
from bench.core.frames import Frames, error_code_at, framed
from bench.groups.exchange import VERSION, connect
from bench.groups.gathering import HEARTBEAT_S, Place, are_stable, member_ids, settle, staying
from bench.groups.members import Group
from bench.groups.target import Target
from bench.measure import usage
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse

JOINING_CONNECTIONS: Final = 32
"""To each node, while the members join: whose connection a heartbeat comes over does not matter to a coordinator."""
JOINING_HEARTBEAT_S: Final = 9.0
"""Less often than later: this client would have its processor full, and sessions last 45 s."""
JOINS_PER_S: Final = 1_000.0
KEPT_MIN: Final = 0.98
"""Of the heartbeats that fall due so many are answered in time, or what the servers' processor time was is no figure."""
ASKED_MAX: Final = 100
"""Groups that are asked for in one request."""


def measure(
    target: Target,
    directory: Path,
    topic: str,
    groups: int,
    each: int,
    warm_s: float,
    seconds: float,
    kept_min: float = KEPT_MIN,
) -> dict[str, Any]:
    """Groups of so many members on as many partitions, each with a connection and a heartbeat every HEARTBEAT_S.

    Raises LoadFailed (fewer than `kept_min` of the heartbeats were answered in time, too), MemberRefused, AdminFailed.
    """
    names = [f"idle-{number}" for number in range(groups)]
    found: dict[str, tuple[int, str]] = {}
    for begin in range(0, groups, ASKED_MAX):
        found.update(coordinators_of(target.addresses, names[begin : begin + ASKED_MAX]))
    by_address: dict[str, list[Group]] = defaultdict(list)
    for name in names:
        by_address[found[name][1]].append(Group(name, topic, each, member_ids(each)))
    clients = {address: Client(directory / f"node-{number}", None) for number, address in enumerate(by_address)}
    with asyncio.Runner() as runner:
        settled_s = runner.run(_join(by_address))
    pids = dict(target.processes)
    under_way = []
    with ThreadPoolExecutor(len(by_address)) as threads:
        for address, its in by_address.items():
            members = sum(len(group.members) for group in its)
            load = Load(heartbeat_frames(its), members, 1, members / HEARTBEAT_S)
            port = int(address.rpartition(":")[2])
            # One of them looks at the servers' processor time; the others begin and end a moment earlier or later.
            under_way.append(threads.submit(clients[address].put, port, pids, load, warm_s=warm_s, seconds=seconds))
            pids = {}
        answers = [one.result() for one in under_way]
    answered, wanted = sum(one["answers"] for one in answers), groups * each / HEARTBEAT_S * seconds
    if answered < kept_min * wanted:
        raise LoadFailed(f"{answered} heartbeats were answered in {seconds:g} s, {wanted:.0f} fell due")
    if not are_all_stable(by_address):
        raise LoadFailed("a group was not Stable any more behind its heartbeats")
    return {
        "groups": groups,
        "members": groups * each,
        "settled_s": round(settled_s, 2),
        "seconds": seconds,
        "heartbeats_per_s": round(answered / seconds, 1),
        "cpu_percent": round(100 * answers[0]["server_cpu_s"] / seconds, 2),
        "by_node": answers,
        "memory": usage(target.processes),
    }


def heartbeat_frames(groups: Sequence[Group]) -> Frames:
    """Of every member, the heartbeat that has nothing to say. Pure."""
    members = [member for group in groups for member in group.members]
    frames = [
        framed(ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, number, member.heartbeat())
        for number, member in enumerate(members)
    ]
    zero_at = error_code_at(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, VERSION, lambda code: ConsumerGroupHeartbeatResponse(error_code=code)
    )
    return Frames(b"".join(frames), zero_at)


def are_all_stable(by_address: dict[str, list[Group]]) -> bool:
    """Raises AdminFailed."""
    return all(
        are_stable(address, groups[begin : begin + ASKED_MAX])
        for address, groups in by_address.items()
        for begin in range(0, len(groups), ASKED_MAX)
    )


async def _join(by_address: dict[str, list[Group]]) -> float:
    """Seconds until all groups were settled; nobody is connected any more, and everybody is still a member."""
    exchanges = {address: await connect(address, JOINING_CONNECTIONS) for address in by_address}
    lines = {address: cycle(some) for address, some in exchanges.items()}
    every = [(address, group) for address, groups in by_address.items() for group in groups]
    members = [(address, group, member) for address, group in every for member in group.members]
    places: list[Place] = [
        (group, member, next(lines[address]), number / JOINS_PER_S)
        for number, (address, group, member) in enumerate(members)
    ]
    try:
        async with staying(places, JOINING_HEARTBEAT_S) as check_members:
            return await settle([group for _, group in every], lambda: are_all_stable(by_address), check_members)
    finally:
        for some in exchanges.values():
            for exchange in some:
                exchange.close()
