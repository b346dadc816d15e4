"""Nodes and members are killed while a share group works through a backlog: what is counted, accepted twice, or lost."""

from __future__ import annotations

import itertools
import threading
import time
from random import Random
from typing import Any, Final
from uuid import UUID

from bench.cluster.faults import make_topic
from bench.cluster.sides import Side
from bench.findings import say
from bench.loads.client import Client
from bench.queues.groups import EARLIEST, configure, initialize, topic_id_of
from bench.queues.ledger import Ledger
from bench.queues.member import GONE, Given, Member
from bench.queues.plan import Plan
from bench.queues.target import produced
from bench.workloads import LoadFailed

TOPIC: Final = "killed"
GROUP: Final = "killed"
PARTITIONS: Final = 12
MEMBERS: Final = 6
RECORD_BYTES: Final = 100
FETCH_RECORDS: Final = 200
POLL_MS: Final = 1_000
AGAIN_S: Final = 0.2
BETWEEN_S: Final = (0.5, 2.0)
KILL_S: Final = 6.0
"""More than a kill takes, with the pause before the next one: it sets the members' rate."""
DELIVERY_LIMIT: Final = 10
SEED: Final = 1
CONFIGS: Final = {**EARLIEST, "share.delivery.count.limit": str(DELIVERY_LIMIT)}
NODE_EVERY: Final = 2
"""Of so many kills the first is of a node, the others are of members."""


def measure(side: Side, plan: Plan, client: Client) -> dict[str, Any]:
    """Raises LoadFailed, AdminFailed, OSError."""
    make_topic(side, PARTITIONS, topic=TOPIC)
    produced(client, side.bootstrap, TOPIC, PARTITIONS, plan.kill_records, RECORD_BYTES)
    configure(side.addresses, GROUP, CONFIGS)
    initialize(side.addresses, GROUP, TOPIC, PARTITIONS)
    group = _Group(side, topic_id_of(side.addresses, TOPIC), plan)
    began_s = time.monotonic()
    with group:
        _kill(side, group, plan)
        left = group.ledger.left
        finished = group.wait(plan.kill_wait_s)
    if group.failures:
        raise LoadFailed(group.failures[0])
    return {
        "records": plan.kill_records,
        "kills": plan.kills,
        "left_after_kills": left,
        "finished": finished,
        "seconds": round(time.monotonic() - began_s, 1),
        **group.ledger.found(),
    }


def _kill(side: Side, group: _Group, plan: Plan) -> None:
    random = Random(SEED)
    for number in range(plan.kills):
        time.sleep(random.uniform(*BETWEEN_S))
        if number % NODE_EVERY:
            group.kill_member(random)
            continue
        victim = random.choice(list(side.broker_ids))
        say(f"  kill {number + 1} of {plan.kills}: node {victim}")
        side.nodes[victim].kill()
        time.sleep(random.uniform(*BETWEEN_S))
        side.nodes[victim].start()
        side.wait_whole()


class _Group:
    """Threads, each a member that gets a new id with each session. They are so slow that the backlog outlasts the kills,
    and hurry afterwards.
    """

    def __init__(self, side: Side, topic_id: UUID, plan: Plan) -> None:
        self.ledger = Ledger(PARTITIONS, plan.kill_records)
        self.failures: list[str] = []
        self._side, self._topic_id = side, topic_id
        self._finish = threading.Event()
        self._hurry = threading.Event()
        self._pause_s = FETCH_RECORDS * MEMBERS * KILL_S * plan.kills / plan.kill_records
        self._numbers = itertools.count(1)
        self._members: dict[int, Member] = {}
        self._threads = [
            threading.Thread(target=self._run, args=(place,), name=f"member {place}", daemon=True)
            for place in range(MEMBERS)
        ]

    def __enter__(self) -> _Group:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finish.set()
        for thread in self._threads:
            thread.join()

    def kill_member(self, random: Random) -> None:
        """Its connection ends in the middle of whatever it does."""
        members = list(self._members.values())
        if members:
            random.choice(members).abort()

    def wait(self, timeout_s: float) -> bool:
        """Whether all records were accepted in time, as far as members know."""
        self._hurry.set()
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s and not self.failures:
            if self.ledger.is_finished:
                return True
            time.sleep(AGAIN_S)
        return False

    def _run(self, place: int) -> None:
        try:
            for address in itertools.islice(itertools.cycle(self._side.addresses), place, None):
                if self._finish.is_set():
                    return
                try:
                    self._session(place, address)
                except GONE:
                    self._finish.wait(AGAIN_S)
        except Exception as error:  # the main thread raises it
            self.failures.append(f"{type(error).__name__}: {error}")

    def _session(self, place: int, address: str) -> None:
        """Raises OSError, AdminFailed."""
        name = f"member-{next(self._numbers)}"
        given: list[Given] = []
        with Member(address, GROUP, name, self._topic_id, range(PARTITIONS)) as member:
            self._members[place] = member
            while not self._finish.is_set():
                self.ledger.accepting(given)
                found = member.fetch(given, max_records=FETCH_RECORDS, max_wait_ms=POLL_MS)
                self.ledger.accepted([one for one in given if one.partition not in found.refused])
                given = list(found.given)
                self.ledger.delivered(given)
                self._hurry.wait(self._pause_s)
