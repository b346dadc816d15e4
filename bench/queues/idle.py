"""Thousands of members of share groups that nothing happens to: what their heartbeats and long polls cost a node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from bench.cluster.admin import check, coordinator_of, create_topic, create_topics_request, wait_for_leaders
from bench.cluster.many import insist
from bench.core.client import Client, Load
from bench.core.frames import Frames, error_code_at, framed
from bench.groups.exchange import VERSION, Exchange, connect
from bench.groups.target import Target
from bench.measure import usage
from bench.queues.client import Members
from bench.queues.frames import Fetching
from bench.queues.groups import configure, member_ids, topic_id_of
from bench.queues.plan import Plan
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from bmq.protocol.messages.share_group_heartbeat_response import ShareGroupHeartbeatResponse

TOPIC: Final = "idle"
PARTITIONS: Final = 50
CONFIGS: Final = {"group.share.max.size": "1000", "group.share.max.share.sessions": "20000"}
HEARTBEAT_S: Final = 5.0
"""What both servers say by default."""
HEARTBEAT_CONNECTIONS: Final = 500
JOINING_CONNECTIONS: Final = 32
ROUNDS_MAX: Final = 60
ROUND_S: Final = 1.0
OPENING_S: Final = 60.0
"""While the sessions are opened, heartbeats go on."""
KEPT_MIN: Final = 0.98


@dataclass(slots=True)
class Member:
    """`epoch`: of its last answer."""

    group_id: str
    member_id: str
    epoch: int = 0

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        names = (TOPIC,) if self.epoch == 0 else None
        return ShareGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch, subscribed_topic_names=names
        )


def measure(target: Target, polls: Members, heartbeats: Client, plan: Plan) -> dict[str, Any]:
    """Every member has a connection for its polls. Raises LoadFailed, AdminFailed, OSError."""
    create_topic(target.addresses, create_topics_request(TOPIC, PARTITIONS, target.replication))
    wait_for_leaders(target.addresses, TOPIC, PARTITIONS)
    groups = [f"idle-{number}" for number in range(plan.idle_members // plan.idle_each)]
    for group_id in groups:
        configure(target.addresses, group_id)
    insist(lambda: coordinator_of(target.addresses, groups[0]))
    members = [Member(group_id, one) for group_id in groups for one in member_ids(plan.idle_each, group_id)]
    asyncio.run(settle(target.addresses[0], members))
    topic_id, port = topic_id_of(target.addresses, TOPIC), int(target.addresses[0].rpartition(":")[2])
    poll_s = plan.poll_ms / 1000
    load = Load(heartbeat_frames(members), min(HEARTBEAT_CONNECTIONS, len(members)), 1, len(members) / HEARTBEAT_S)
    with ThreadPoolExecutor(1) as threads:
        beating = threads.submit(heartbeats.put, port, {}, load, warm_s=0, seconds=OPENING_S + 2 * poll_s + plan.idle_s)
        polled = _poll(target, polls, port, topic_id, members, plan)
        if beating.done() and not beating.exception():
            raise LoadFailed("the heartbeats ended before the polls")
        beaten = beating.result()
    wanted = len(members) / HEARTBEAT_S * beaten["seconds"]
    if beaten["answers"] < KEPT_MIN * wanted:
        raise LoadFailed(f"{beaten['answers']} of {wanted:.0f} heartbeats were answered in time")
    if polled["fetches"] < KEPT_MIN * (expected := len(members) / poll_s * plan.idle_s):
        raise LoadFailed(f"{polled['fetches']} polls were answered, {expected:.0f} were expected")
    return {
        "members": len(members),
        "cpu_percent": round(100 * polled["server_cpu_s"] / plan.idle_s, 2),
        "heartbeats_per_s": round(beaten["answers"] / beaten["seconds"], 1),
        "polls_per_s": round(polled["fetches"] / plan.idle_s, 1),
        "heartbeat_p99_us": beaten["latency_p99_us"],
        "memory": usage(target.processes),
        "polls": polled,
    }


def _poll(
    target: Target, polls: Members, port: int, topic_id: UUID, members: Sequence[Member], plan: Plan
) -> dict[str, Any]:
    """All groups through one client: a session's group is a part of its frames."""
    poll_s = plan.poll_ms / 1000
    asked = [
        Fetching(
            group_id,
            topic_id,
            [(one.member_id, number % PARTITIONS) for number, one in enumerate(members) if one.group_id == group_id],
            plan.poll_ms,
            500,
        )
        for group_id in dict.fromkeys(one.group_id for one in members)
    ]
    return polls.fetch_all(
        port, target.pids, asked, rate_per_s=len(members) / poll_s, warm_s=poll_s, seconds=plan.idle_s
    )


def heartbeat_frames(members: Sequence[Member]) -> Frames:
    """Of every member, the heartbeat that has nothing to say. Pure."""
    frames = [
        framed(ApiKey.SHARE_GROUP_HEARTBEAT, VERSION, number, member.heartbeat())
        for number, member in enumerate(members)
    ]
    zero_at = error_code_at(
        ApiKey.SHARE_GROUP_HEARTBEAT, VERSION, lambda code: ShareGroupHeartbeatResponse(error_code=code)
    )
    return Frames(b"".join(frames), zero_at)


async def settle(address: str, members: Sequence[Member]) -> None:
    """Let all of them join, and return once no heartbeat changes anything. Raises LoadFailed, AdminFailed."""
    exchanges = await connect(address, JOINING_CONNECTIONS)

    async def beat(exchange: Exchange, some: Sequence[Member]) -> int:
        changed = 0
        for member in some:
            answer = await exchange.call(ApiKey.SHARE_GROUP_HEARTBEAT, member.heartbeat())
            check(f"member {member.member_id}", answer.error_code, answer.error_message)
            changed += answer.member_epoch != member.epoch
            member.epoch = answer.member_epoch
        return changed

    try:
        for _ in range(ROUNDS_MAX):
            parts = [members[first::JOINING_CONNECTIONS] for first in range(JOINING_CONNECTIONS)]
            changed = await asyncio.gather(*(beat(*one) for one in zip(exchanges, parts, strict=True)))
            if not sum(changed):
                return
            await asyncio.sleep(ROUND_S)
        raise LoadFailed(f"{sum(changed)} members had a new epoch in round {ROUNDS_MAX}")
    finally:
        for exchange in exchanges:
            exchange.close()
