"""A cluster under producers, and readers of two views of their topic, of which one shows what the other leaves out.

The nodes that own the partitions and serve the readers die, hang, move and are cut off. Each record is shown by one of both views, at its
own offset, to each reader that passes it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import Final

from bmq.protocol.batch_records import Record
from tests.simulation.clients import TOPIC, Address, Client, create_topic
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_chaos import PARTITIONS, ClusterChaos
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.fault_rates import FaultRates
from tests.simulation.history import Violation
from tests.simulation.lane_clients import LANES, LaneProducer, read
from tests.simulation.until_done import until_done
from tests.simulation.view_history import ViewHistory

PRODUCERS: Final = 2
BATCHES_PER_PRODUCER: Final = 40
SETTLE_S: Final = 60.0
# The kernel in C looks at the first one, closures at the other one.
FILTERS: Final = {
    "blue": "\"x-lane\" = 'blue'",
    "others": '"x-lane" IS NULL OR "x-lane" NOT LIKE \'bl_e\'',
}


class ViewProducer(LaneProducer):
    """Some batches pass as a whole, some in part, some not; some are longer than what is filtered on the event loop."""

    def _records(self) -> list[Record]:
        lanes = self.rng.choice((("",), LANES[:1], LANES[1:], ("", *LANES)))
        padding = b"." * self.rng.choice((0, 0, 100, 5_000))
        return [self._record(self.rng.choice(lanes), padding) for _ in range(self.rng.randint(1, 5))]


class ViewReader(Client):
    """Reads a partition of a view as it grows; now and then again from an earlier offset."""

    def __init__(
        self, name: str, address: Address, rng: random.Random, history: ViewHistory, view: str, partition: int
    ) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self._view = view
        self._partition = partition
        self.position = 0

    async def run(self) -> None:
        while True:
            await self.until_done(self.step)
            if self.rng.random() < 0.05:
                self.position = self.rng.randrange(self.position + 1)

    async def step(self) -> None:
        found, end = await read(self, self._view, self._partition, self.position, 300)
        seen = {record.offset: record.value or b"" for record in found}
        self._history.read(self._view, self._partition, range(self.position, end), seen)
        self.position = end


class Views(Cluster):
    name = "views"
    may_age = False

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        super().__init__(seed, rates, is_looking_inside)
        self.views = ViewHistory({"blue": lambda lane: lane == "blue", "others": lambda lane: lane != "blue"})

    def _kind(self) -> ClusterKind:
        return dataclasses.replace(super()._kind(), is_making_topics=False, is_deleting=False)

    async def run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        await create_topic(admin, PARTITIONS, self.kind.topic_configs())
        for view, text in FILTERS.items():
            await create_topic(admin, -1, {"bmq.view.of": TOPIC, "bmq.view.filter": text}, view)
        producers: list[ViewProducer] = [
            self.client(f"p{number}", ViewProducer, self.views, PARTITIONS) for number in range(PRODUCERS)
        ]
        readers: list[ViewReader] = [
            self.client(f"{view}{number}", ViewReader, self.views, view, number)
            for view in FILTERS
            for number in range(PARTITIONS)
        ]
        reading = [self.loop.create_task(one.run()) for one in readers]
        chaos = self.loop.create_task(ClusterChaos(self, self._dice("chaos")).run())
        sending = asyncio.gather(*(one.run(BATCHES_PER_PRODUCER, self.kind.pace_s) for one in producers))
        await until_done((chaos, sending), (watching, *reading))
        watching.cancel()
        self._calm()
        watching = self.loop.create_task(self.watch())
        checking = self.loop.create_task(self._check_settled(admin))
        await until_done((checking,), (watching, *reading))
        for task in (watching, *reading):
            task.cancel()
        counts = self.views.counts()
        self.history.acknowledged_batches = sum(one.batch_count for one in producers)
        self.outcome.moves = self.rules.moves
        self.outcome.views_shown, self.outcome.views_left_out = counts["shown"], counts["left_out"]

    async def _check_settled(self, admin: Client) -> None:
        """Everything that is there was passed by readers of both views."""
        logs, ends = {}, {}
        for number in range(PARTITIONS):
            logs[number], ends[number] = await self._read_all(admin, number)
        deadline_s = self.loop.time() + SETTLE_S
        while behind := self.views.behind(ends):
            if self.loop.time() > deadline_s:
                raise Violation(f"readers of {behind} do not get to {ends}")
            await asyncio.sleep(0.2)
        self.views.check_final(logs)
        self.check_now()

    async def _read_all(self, admin: Client, number: int) -> tuple[dict[int, bytes], int]:
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
        return found, place
