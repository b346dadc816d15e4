"""A data partition moves while its records are locked: how many of these are given to others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID, uuid4

from bench.cluster.admin import AdminFailed, create_topic, create_topics_request, leaders, reassign, wait_for_leaders
from bench.cluster.moves import MOVE_WAIT_S, next_broker
from bench.cluster.sides import Side, wait_for_owner
from bench.loads.client import Client
from bench.queues.groups import configure, initialize, topic_id_of
from bench.queues.member import GONE, Given, Member
from bench.queues.target import produced

RECORDS: Final = 20_000
LOCKED: Final = 500
WATCH_S: Final = 3.0
"""Far less than a lock's duration."""
POLL_S: Final = 0.05


def measure(side: Side, count: int, client: Client, done: Callable[[dict[str, Any]], None]) -> None:
    """`done` is given each move. Raises AdminFailed, LoadFailed, OSError."""
    topic = f"moving-{uuid4().hex[:8]}"
    create_topic(side.addresses, create_topics_request(topic, 0, 0, assignments={0: side.broker_ids[:1]}))
    wait_for_leaders(side.addresses, topic, 1)
    produced(client, side.bootstrap, topic, 1, RECORDS, 100)
    topic_id = topic_id_of(side.addresses, topic)
    for number in range(count):
        group_id = f"moves-{number}-{topic}"
        configure(side.addresses, group_id)
        initialize(side.addresses, group_id, topic, 1)
        done(_move(side, topic, topic_id, group_id))


def _move(side: Side, topic: str, topic_id: UUID, group_id: str) -> dict[str, Any]:
    source = side.owners(topic)[0]
    target = next_broker(side.broker_ids, source)
    with Member(_leader(side, topic), group_id, "holder", topic_id, [0]) as holder:
        held = holder.fetch(max_records=LOCKED, max_wait_ms=5_000, is_exact=True).given
        locked = {offset for one in held for offset in range(one.first, one.last + 1)}
        if len(locked) != LOCKED:
            raise AdminFailed(f"{len(locked)} of {LOCKED} records were locked")
        reassign(side.live_addresses, topic, 0, [target])
        wait_for_owner(side, topic, 0, target, MOVE_WAIT_S)
        again, others = _others(side, topic, topic_id, group_id, locked)
        try:
            refused = holder.fetch(held, max_records=0, max_wait_ms=0).refused
        except GONE as error:
            refused = {0: str(error)}  # type: ignore[dict-item]
    return {
        "from": source,
        "to": target,
        "locked": len(locked),
        "redelivered": again,
        "delivered_to_others": others,
        "accepts_refused": LOCKED if refused else 0,
    }


def _others(side: Side, topic: str, topic_id: UUID, group_id: str, locked: set[int]) -> tuple[int, int]:
    """What another member is given in some time after the move: of the locked records, and of all."""
    again = others = 0
    member: Member | None = None
    given: list[Given] = []
    ends_s = time.monotonic() + WATCH_S
    while time.monotonic() < ends_s:
        try:
            member = member or Member(_leader(side, topic), group_id, "other", topic_id, [0])
            given = list(member.fetch(given, max_records=LOCKED, max_wait_ms=100, is_exact=True).given)
        except GONE:
            if member is not None:
                member.close()
            member, given = None, []
            time.sleep(POLL_S)
        for one in given:
            others += one.last - one.first + 1
            again += sum(offset in locked for offset in range(one.first, one.last + 1))
    if member is not None:
        member.close()
    return again, others


def _leader(side: Side, topic: str) -> str:
    """Raises AdminFailed."""
    leader = leaders(side.live_addresses, topic)[0]
    if leader not in side.nodes:
        raise AdminFailed(f"the leader of {topic} is {leader}")
    return side.nodes[leader].kafka
