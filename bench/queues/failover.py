"""kill -9 of the node that owns a partition and the state of its share partition: how long nothing is delivered."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID, uuid4

from bench.cluster.admin import AdminFailed, leaders
from bench.cluster.faults import make_topic
from bench.cluster.sides import Side
from bench.loads.client import Client
from bench.queues.groups import configure, initialize, topic_id_of
from bench.queues.member import GONE, Given, Member
from bench.queues.target import produced
from bmq.coordinator.runtime.directory import shard_of
from bmq.metadata.image import SHARE_STATE_TOPIC_NAME
from bmq.protocol.share_state_messages import state_key

PARTITIONS: Final = 6
RECORDS: Final = 60_000
RECORD_BYTES: Final = 100
CALM_S: Final = 2.0
WATCH_S: Final = 2.0
RECOVERY_WAIT_S: Final = 60.0
INTERVAL_S: Final = 0.01
GROUPS_TRIED_MAX: Final = 1_000


class Deliveries:
    """When records were delivered. Seconds on one clock, none of them read here."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def gap_s(self, since: float) -> float:
        """The longest time between two deliveries of which the later one came after `since`. Raises ValueError."""
        return max(later - before for before, later in itertools.pairwise(self.times) if later > since)


def measure(side: Side, count: int, client: Client, done: Callable[[dict[str, Any]], None]) -> None:
    """So many kills, each healed before the next; `done` is given each. Raises AdminFailed, LoadFailed."""
    topic = f"failover-{uuid4().hex[:8]}"
    make_topic(side, PARTITIONS, topic=topic)
    produced(client, side.bootstrap, topic, PARTITIONS, RECORDS, RECORD_BYTES)
    first_group = f"first-{topic}"
    configure(side.addresses, first_group)
    initialize(side.addresses, first_group, topic, PARTITIONS)  # the topic of the state exists from now on
    for number in range(count):
        side.wait_whole()
        done(_kill(side, topic, number))


def _kill(side: Side, topic: str, number: int) -> dict[str, Any]:
    topic_id = topic_id_of(side.live_addresses, topic)
    victim, partition, group_id = _choose(side, topic, topic_id, number)
    configure(side.live_addresses, group_id)
    initialize(side.live_addresses, group_id, topic, PARTITIONS)
    seen = Deliveries()
    reader = _Reader(side, topic, topic_id, partition, group_id, seen)
    try:
        reader.run_until(time.monotonic() + CALM_S)
        if not seen.times:
            raise AdminFailed(f"nothing was delivered to {group_id}")
        killed_s = time.monotonic()
        side.nodes[victim].kill()
        deadline_s = killed_s + RECOVERY_WAIT_S
        while seen.times[-1] < killed_s:
            if time.monotonic() > deadline_s:
                raise AdminFailed(f"nothing was delivered for {RECOVERY_WAIT_S:g} s after the kill of node {victim}")
            reader.run_until(time.monotonic() + INTERVAL_S)
        reader.run_until(time.monotonic() + WATCH_S)
    finally:
        reader.close()
    calm = Deliveries()
    calm.times = [at for at in seen.times if at < killed_s]
    found = {
        "victim": victim,
        "partition": partition,
        "calm_gap_s": round(calm.gap_s(0.0), 4),
        "gap_s": round(seen.gap_s(killed_s), 4),
        "sessions": reader.sessions,
    }
    side.nodes[victim].start()
    return found


class _Reader:
    """A member that is given one record at a time, and goes to the partition's leader as Metadata names it. What it has
    not accepted when a session ends is given again.
    """

    def __init__(self, side: Side, topic: str, topic_id: UUID, partition: int, group_id: str, seen: Deliveries) -> None:
        self.sessions = 0
        self._side, self._topic, self._topic_id = side, topic, topic_id
        self._partition, self._group_id, self._seen = partition, group_id, seen
        self._member: Member | None = None
        self._given: list[Given] = []

    def run_until(self, ends_s: float) -> None:
        while time.monotonic() < ends_s:
            began_s = time.monotonic()
            try:
                self._fetch()
            except GONE:
                self.close()
            time.sleep(max(0.0, began_s + INTERVAL_S - time.monotonic()))

    def close(self) -> None:
        if self._member is not None:
            self._member.close()
        self._member, self._given = None, []

    def _fetch(self) -> None:
        if self._member is None:
            leader = leaders(self._side.live_addresses, self._topic)[self._partition]
            node = self._side.nodes.get(leader)
            if node is None or not node.is_running:
                raise AdminFailed(f"the leader is {leader}")
            self.sessions += 1
            name = f"reader-{self.sessions}"
            self._member = Member(node.kafka, self._group_id, name, self._topic_id, [self._partition])
        found = self._member.fetch(self._given, max_records=1, max_wait_ms=500, is_exact=True)
        self._given = list(found.given)
        if self._given:
            self._seen.times.append(time.monotonic())


def _choose(side: Side, topic: str, topic_id: UUID, number: int) -> tuple[int, int, str]:
    """A node, a partition that it owns, and a group whose state of that partition it has. It is not the active controller:
    a new controller is measured elsewhere. Raises AdminFailed.
    """
    controller = side.active_controller()
    owners, shards = side.owners(topic), side.owners(SHARE_STATE_TOPIC_NAME)
    for place in range(GROUPS_TRIED_MAX):
        group_id = f"failover-{number}-{place}"
        for partition, owner in owners.items():
            shard = shard_of(state_key(group_id, topic_id, partition), len(shards))
            if owner != controller and shards[shard] == owner:
                return owner, partition, group_id
    raise AdminFailed(f"no node but the controller {controller} has a partition and its state")
