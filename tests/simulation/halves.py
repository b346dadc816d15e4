"""A cluster under producers of half messages, a client that answers checks, and readers; the nodes' clocks differ.

Producers decide most of their messages themselves, sometimes against what the database says, sometimes late or twice; about others
only the database knows, about some nobody. Owners die, hang, move and are cut off between a message, its decision, its checks and its
delivery. In some seeds the topic has delayed records too, which go into small runs, and nothing is given up in some.
"""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import nullcontext
from functools import partial

from bmq.log.half.half_headers import Outcome
from bmq.protocol.dead_letters import TOPIC_CONFIG
from tests.simulation.clients import TOPIC, Client, Unhappy, create_topic
from tests.simulation.clock import SimulatedClock
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_chaos import PARTITIONS
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.dead_letters import read_records
from tests.simulation.delay_clients import read_all_batches
from tests.simulation.delays import DIFFERENCES_MS, HOUR_MS, SMALL_RUNS_SHARE, DelayChaos, SkewedClock, small_runs
from tests.simulation.fault_rates import FaultRates
from tests.simulation.half_clients import Checker, HalfFollower, HalfHabits, HalfProducer, seen
from tests.simulation.half_history import HalfHistory
from tests.simulation.history import Violation
from tests.simulation.until_done import until_done

CHECKS, LOST = "checks", "lost"
PRODUCERS = 3
BATCHES_PER_PRODUCER = 12
SETTLE_S = 60.0
_DELAYS_MS = (0, 0, 3_000)


class Halves(Cluster):
    name = "half"
    may_age = False

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        super().__init__(seed, rates, is_looking_inside)
        dice = self._dice("habits")
        self.halves = HalfHistory(gives_up=dice.random() < 0.6)
        self.followers: list[HalfFollower] = []
        self._database: dict[bytes, Outcome] = {}
        self._habits = HalfHabits(dice.choice(_DELAYS_MS), dice.choice((0.2, 1.0, 4.0)), self.kind.pace_s)
        self._check_configs = {
            "bmq.half.check.first.ms": str(dice.choice((100, 500, 3_000))),
            "bmq.half.check.interval.ms": str(dice.choice((1_000, 3_000))),
            "bmq.half.check.max": str(dice.choice((1, 3, 6))),
        }
        self._differences_ms = self._dice("clocks").choice(DIFFERENCES_MS)
        self._is_late = False  # all clocks are behind every time that an owner wrote

    def _kind(self) -> ClusterKind:
        kind = super()._kind()
        return dataclasses.replace(kind, is_making_topics=False, is_deleting=self._dice("deleting").random() < 0.3)

    def _clock(self, node_id: int, number: int) -> SimulatedClock:
        dice = self._dice(f"clock {node_id} {number}")
        ahead_ms = dice.choice((-1, 1)) * dice.choice(self._differences_ms)
        return SkewedClock(self.loop, 3 * HOUR_MS if self._is_late else ahead_ms)

    def _topic_configs(self) -> dict[str, str]:
        configs = {**self.kind.topic_configs(), **self._check_configs}
        configs |= {"bmq.half.enable": "true", "bmq.half.check.topic": CHECKS}
        if self.halves.gives_up:
            configs["bmq.half.given.up.topic"] = LOST
        return {**configs, "bmq.delay.enable": "true"} if self._habits.delay_ms else configs

    # --- the run

    async def run(self) -> None:
        with small_runs() if self._dice("runs").random() < SMALL_RUNS_SHARE else nullcontext():
            await self._run()

    async def _run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        for name in (CHECKS, LOST):
            await create_topic(admin, 1, {**self.kind.topic_configs(), TOPIC_CONFIG: "true"}, name)
        await create_topic(admin, PARTITIONS, self._topic_configs())
        common = self.halves, self._check_acknowledged
        producers: list[HalfProducer] = [
            self.client(f"p{number}", HalfProducer, *common, self._habits, self._database, PARTITIONS)
            for number in range(PRODUCERS)
        ]
        checker: Checker = self.client("checker", Checker, *common, CHECKS, self._database)
        self.followers += [
            self.client(f"follower{number}", HalfFollower, self.halves, number) for number in range(PARTITIONS)
        ]
        following = [self.loop.create_task(one.run()) for one in self.followers]
        following.append(self.loop.create_task(checker.run()))
        chaos = self.loop.create_task(DelayChaos(self, self._dice("chaos"), self.followers, self.halves).run())
        sending = asyncio.gather(*(one.run(BATCHES_PER_PRODUCER, lambda: not chaos.done()) for one in producers))
        await until_done((chaos, sending), (watching, *following))
        watching.cancel()
        self._is_late = self._differences_ms[-1] >= HOUR_MS // 2
        self._calm()
        watching = self.loop.create_task(self.watch())
        checking = self.loop.create_task(self._check_settled(admin, checker))
        await until_done((checking,), (watching, *following))
        for task in (watching, *following):
            task.cancel()
        self._count([*producers, checker])

    def _count(self, senders: list[HalfProducer | Checker]) -> None:
        outcome, counts = self.outcome, self.halves.counts()
        self.history.acknowledged_batches = sum(one.batch_count for one in senders)
        self.history.shortages = sum(one.shortages for one in senders)
        outcome.moves = self.rules.moves
        outcome.halves_delivered, outcome.halves_rolled_back = counts["delivered"], counts["rolled_back"]
        outcome.halves_given_up, outcome.halves_checked = counts["given_up"], counts["checks"]
        outcome.halves_refused = counts["refused"]

    async def _check_settled(self, admin: Client, checker: Checker) -> None:
        """Everything that was acknowledged has its fate, and nothing more comes then."""
        lost = 0
        deadline_s, fewest = self.loop.time() + SETTLE_S, len(self.halves.names)
        while True:
            lost = await self._read_lost(admin, lost)
            missing = self.halves.missing()
            if not missing:
                break
            if len(missing) < fewest:
                deadline_s, fewest = self.loop.time() + SETTLE_S, len(missing)
            if self.loop.time() > deadline_s:
                raise Violation(f"{len(missing)} records have no fate: {[value[:20] for value in missing[:5]]}")
            await asyncio.sleep(0.2)
        await admin.until_done(self._until_nothing_waits)
        await self._check_asked(admin, checker)
        await self._read_lost(admin, lost)
        for number in range(PARTITIONS):
            start, found = await read_all_batches(admin, number)
            self.halves.check_final(number, start, [seen(record, epoch) for record, epoch in found])
        self.check_now()

    async def _read_lost(self, admin: Client, position: int) -> int:
        records, position = await admin.until_done(partial(read_records, admin, (LOST, 0), position))
        for record in records:
            said = dict(record.headers)
            if said["bmq-half-topic"] != TOPIC.encode():
                raise Violation(f"a message was given up that says {said}")
            name = int(said["bmq-half-partition"] or b""), int(said["bmq-half-offset"] or b"")
            self.halves.copied(name, record.value or b"")
        return position

    async def _check_asked(self, admin: Client, checker: Checker) -> None:
        """From now on nobody is asked about a message that is decided."""
        decided = {value for value in self.halves.checks if not self.halves.is_undecided(value)}
        read = partial(read_records, admin, (CHECKS, 0))
        _, end = await admin.until_done(lambda: read(checker.position))
        await asyncio.sleep(2 * int(self._check_configs["bmq.half.check.interval.ms"]) / 1000)
        asked, _ = await admin.until_done(lambda: read(end))
        wrong = [value for one in asked if (value := self.halves.values[one.key or b""]) in decided]
        if wrong:
            raise Violation(f"somebody was asked about {[value[:20] for value in wrong[:5]]}, which are decided")

    async def _until_nothing_waits(self) -> None:
        """What was sent and never acknowledged may wait too."""
        if not self.rules.is_looking_inside:
            return
        for node in self.nodes.values():
            for one in () if node.roles is None else tuple(node.roles.manager._started):
                waits = one.half.order.undecided_count if not self.halves.gives_up else 0
                if one.is_owning and len(one.half.order) > waits:
                    raise Unhappy("half messages wait")
                if any(view.count for view in (one.timers.view,) if view is not None):
                    raise Unhappy("records wait")
