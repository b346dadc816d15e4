"""Thousands of members of share groups that nothing happens to: what their heartbeats and long polls cost a node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from bench.cluster.admin import check, coordinator_of, create_topic, create_topics_request, wait_for_leaders
from bench.cluster.many import insist
from bench.core.client import Client, Load, Stop
from bench.core.frames import Frames, error_code_at, framed
from bench.findings import say
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
CONFIGS: Final = {
    "group.share.max.size": "1000",
    "group.share.max.share.sessions": "20000",
    "max.connections": "20000",
}
"""A member has a connection for its polls, so that the heartbeats' come on top of 10,000."""
HEARTBEAT_S: Final = 5.0
"""What both servers say by default."""
HEARTBEAT_CONNECTIONS: Final = 500
JOINING_CONNECTIONS: Final = 32
ROUNDS_MAX: Final = 60
ROUND_S: Final = 1.0
POLL_MS: Final = 500
"""A stock client's fetch.max.wait.ms."""
POLL_RECORDS: Final = 500
"""A stock client's max.poll.records."""
WARM_S: Final = 2.0
HEARTBEATS_MAX_S: Final = 600.0
"""They end with the polls; the sessions of all members have to be opened in the meantime."""
KEPT_MIN: Final = 0.05
"""With a smaller part of the polls, or of the heartbeats, there is no figure."""


@dataclass(slots=True)
class Member:
    """`epoch`: of its last answer."""

    group_id: str
    member_id: str
    epoch: int = 0
    topic: str = TOPIC

    def heartbeat(self) -> ShareGroupHeartbeatRequest:
        names = (self.topic,) if self.epoch == 0 else None
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
    say(f"  {len(members)} members join")
    asyncio.run(settle(target.addresses[0], members))
    topic_id, port = topic_id_of(target.addresses, TOPIC), int(target.addresses[0].rpartition(":")[2])
    with _beating(heartbeats, port, members) as (beating, stop):
        found = {}
        for wait_ms in (POLL_MS, plan.long_poll_ms):
            say(f"  they poll, each for {wait_ms} ms")
            found[wait_ms] = _poll(target, polls, port, topic_id, members, wait_ms, plan.idle_s)
            if beating.done():
                beating.result()
                raise LoadFailed("the heartbeats ended before the polls")
        stop()
        beaten = beating.result()
    stock, long = found[POLL_MS], found[plan.long_poll_ms]
    kept = kept_of("heartbeats", beaten["answers"] / beaten["seconds"], len(members) / HEARTBEAT_S)
    return {
        "members": len(members),
        "cpu_percent": stock["cpu_percent"],
        "polls_per_s": stock["polls_per_s"],
        "polls_kept": stock["kept"],
        "long_polls_cpu_percent": long["cpu_percent"],
        "long_polls_per_s": long["polls_per_s"],
        "heartbeats_per_s": round(beaten["answers"] / beaten["seconds"], 1),
        "heartbeats_kept": kept,
        "heartbeat_p99_us": beaten["latency_p99_us"],
        "memory": usage(target.processes),
        "polls": stock,
        "long_polls": long,
    }


@contextmanager
def _beating(heartbeats: Client, port: int, members: Sequence[Member]) -> Iterator[tuple[Future[dict[str, Any]], Stop]]:
    """Every member heartbeats until the end, or until it is stopped."""
    load = Load(heartbeat_frames(members), min(HEARTBEAT_CONNECTIONS, len(members)), 1, len(members) / HEARTBEAT_S)
    stop = Stop()
    with ThreadPoolExecutor(1) as threads:
        try:
            yield threads.submit(heartbeats.put, port, {}, load, warm_s=0, seconds=HEARTBEATS_MAX_S, stop=stop), stop
        finally:
            stop()


def _poll(
    target: Target, polls: Members, port: int, topic_id: UUID, members: Sequence[Member], wait_ms: int, seconds: float
) -> dict[str, Any]:
    """All groups through one client: a session's group is a part of its frames. Raises LoadFailed."""
    asked = [
        Fetching(
            group_id,
            topic_id,
            [(one.member_id, number % PARTITIONS) for number, one in enumerate(members) if one.group_id == group_id],
            wait_ms,
            POLL_RECORDS,
        )
        for group_id in dict.fromkeys(one.group_id for one in members)
    ]
    wanted_per_s = len(members) / wait_ms * 1000
    warm_s = max(WARM_S, wait_ms / 1000)
    polled = polls.fetch_all(port, target.pids, asked, rate_per_s=wanted_per_s, warm_s=warm_s, seconds=seconds)
    polls_per_s = polled["fetches"] / seconds
    kept = kept_of("polls", polls_per_s, wanted_per_s)
    used_percent = 100 * polled["server_cpu_s"] / seconds
    return {
        **polled,
        "cpu_percent": round(used_percent / kept, 2),
        "used_percent": round(used_percent, 2),
        "polls_per_s": round(polls_per_s, 1),
        "kept": kept,
    }


def kept_of(what: str, answered_per_s: float, wanted_per_s: float) -> float:
    """The part of a load that was answered, at most 1. A server that answers less than it is asked for would need as much more
    of a processor for all of it. Pure. Raises LoadFailed.
    """
    kept = round(answered_per_s / wanted_per_s, 3)
    if kept < KEPT_MIN:
        raise LoadFailed(f"{answered_per_s:.0f} of {wanted_per_s:.0f} {what} a second were answered")
    return min(kept, 1.0)


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
