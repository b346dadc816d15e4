"""A cluster under producers of two lanes, whose groups' members come and go, beside readers of the base group.

The nodes that own the partitions and the groups' shards die, hang, move and are cut off. Each record is seen by one of the base group
and its lane's group; what a lane left over, in one copy.
"""

from __future__ import annotations

import asyncio
import dataclasses

from tests.simulation.clients import GROUP_KEY, TOPIC, Client, create_topic, find_coordinator
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_chaos import PARTITIONS, ClusterChaos
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.fault_rates import FaultRates
from tests.simulation.history import Violation
from tests.simulation.lane_clients import (
    COPIES,
    GROUP,
    LANES,
    BaseReader,
    CopyReader,
    LaneMember,
    LaneProducer,
    enable_lanes,
    read,
)
from tests.simulation.lane_history import LaneHistory
from tests.simulation.until_done import until_done

PRODUCERS = 2
BATCHES_PER_PRODUCER = 60
STAYS = 6
SETTLE_S = 60.0


class Lanes(Cluster):
    name = "lanes"
    may_age = False

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        super().__init__(seed, rates, is_looking_inside)
        self.lanes = LaneHistory()
        self._grace_ms = self._dice("grace").choice((0, 200, 2_000))

    def _kind(self) -> ClusterKind:
        return dataclasses.replace(super()._kind(), is_making_topics=False, is_deleting=False)

    async def run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        await create_topic(admin, PARTITIONS, self.kind.topic_configs())
        await create_topic(admin, 1, self.kind.topic_configs(), COPIES)
        await enable_lanes(admin, self._grace_ms)
        await admin.until_done(lambda: find_coordinator(admin, GROUP, GROUP_KEY))  # makes the topic of groups
        producers: list[LaneProducer] = [
            self.client(f"p{number}", LaneProducer, self.lanes, PARTITIONS) for number in range(PRODUCERS)
        ]
        readers = [self.client(f"lanes:{GROUP}#{n}", BaseReader, self.lanes, n) for n in range(PARTITIONS)]
        readers.append(self.client("copies", CopyReader, self.lanes))
        members: list[LaneMember] = [
            self.client(f"lanes:{GROUP}@{lane}#0", LaneMember, self.lanes, lane, PARTITIONS) for lane in LANES
        ]
        reading = [self.loop.create_task(one.run()) for one in readers]
        chaos = self.loop.create_task(ClusterChaos(self, self._dice("chaos")).run())
        sending = asyncio.gather(*(one.run(BATCHES_PER_PRODUCER, self.kind.pace_s) for one in producers))
        staying = asyncio.gather(*(one.run(STAYS) for one in members))
        await until_done((chaos, sending, staying), (watching, *reading))
        watching.cancel()
        self._calm()
        watching = self.loop.create_task(self.watch())
        checking = self.loop.create_task(self._check_settled(admin))
        await until_done((checking,), (watching, *reading))
        for task in (watching, *reading):
            task.cancel()
        self._count(producers, members)

    def _count(self, producers: list[LaneProducer], members: list[LaneMember]) -> None:
        outcome, counts = self.outcome, self.lanes.counts()
        self.history.acknowledged_batches = sum(one.batch_count for one in producers)
        outcome.moves = self.rules.moves
        outcome.lane_stays = sum(one.stays for one in members)
        outcome.lane_records, outcome.lane_copies = counts["lanes"], counts["copies"]
        outcome.base_records = counts["base"]

    async def _check_settled(self, admin: Client) -> None:
        """No record is missing once the lanes' groups are gone, and nothing comes that is there already."""
        deadline_s = self.loop.time() + SETTLE_S
        while missing := self.lanes.missing():
            if self.loop.time() > deadline_s:
                raise Violation(f"{len(missing)} records reach nobody: {missing[:5]}")
            await asyncio.sleep(0.2)
        logs = {number: await self._read_all(admin, number) for number in range(PARTITIONS)}
        await self._base_has_passed(logs)
        await asyncio.sleep(3.0)  # what is copied twice would come by then
        self.lanes.check_final(logs)
        self.check_now()

    async def _base_has_passed(self, logs: dict[int, dict[int, bytes]]) -> None:
        deadline_s = self.loop.time() + SETTLE_S
        spots = [(number, offset) for number, log in logs.items() for offset in log]
        while not all(spot in self.lanes.base for spot in spots):
            if self.loop.time() > deadline_s:
                raise Violation("the base group does not get on")
            await asyncio.sleep(0.2)

    async def _read_all(self, admin: Client, number: int) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        place = 0

        async def step() -> bool:
            nonlocal place
            records, end = await read(admin, TOPIC, number, place, 100)
            found.update((record.offset, record.value or b"") for record in records)
            is_over = end == place
            place = end
            return is_over

        while not await admin.until_done(step):
            pass
        return found
