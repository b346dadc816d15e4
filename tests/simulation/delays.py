"""A cluster under producers that delay records and cancel some, whose nodes' clocks differ.

Readers follow each partition and see each record once, in order of due time, never early by its owner's clock. The nodes that
own partitions die, hang, move and are cut off; a new owner's clock may be behind that of the one before. In some seeds clocks
are right, in some they differ by seconds, in some by most of an hour. Records that were read are deleted in some seeds.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Final, Protocol
from unittest.mock import patch

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages import delete_records_request
from tests.simulation.clients import TOPIC, Client, Unhappy, create_topic, expect, now_ms
from tests.simulation.clock import SimulatedClock
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_chaos import PARTITIONS, ClusterChaos
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.connection import Disconnected
from tests.simulation.delay_clients import DelayHabits, DelayProducer, Follower, read_everything
from tests.simulation.delay_history import DelayHistory
from tests.simulation.fault_rates import FaultRates
from tests.simulation.history import Violation
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.until_done import until_done

PRODUCERS = 3
BATCHES_PER_PRODUCER = 15
SETTLE_S = 60.0
HOUR_MS = 3_600_000
# What clocks differ by: from the true time, to this side or that.
DIFFERENCES_MS = ((0,), (0, 500, 4_000), (0, 500, HOUR_MS * 5 // 6))


SMALL_RUNS: Final = {
    "broker.timers.run_lifecycle.WINDOW_PRESSED": 10,
    "broker.timers.run_lifecycle.LOG_BYTES": 10_000,
    "broker.timers.run_builder.SORTED_COUNT_MAX": 8,
    "log.timers.run_tiers.RUNS_OVERLAPPING_MAX": 2,
    "log.timers.run_tiers.FILE_BYTES": 3_000,
    "log.timers.run_file.BLOCK_BYTES": 1_000,
    "log.timers.run_draft.BLOCK_BYTES": 1_000,
    "log.timers.row_merging.BLOCK_BYTES": 1_000,
    "log.timers.run_merging.BLOCK_BYTES": 1_000,
}
SMALL_RUNS_SHARE: Final = 0.6


@contextmanager
def small_runs() -> Iterator[None]:
    """Runs have some records, and are merged when more than two overlap."""
    with ExitStack() as stack:
        for name, value in SMALL_RUNS.items():
            stack.enter_context(patch(f"bmq.{name}", value))
        yield


class SkewedClock(SimulatedClock):
    """Goes as the true one does, `ahead_ms` before it."""

    def __init__(self, loop: VirtualTimeLoop, ahead_ms: int) -> None:
        super().__init__(loop)
        self._ahead_ms = ahead_ms

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms


class Reader(Protocol):
    """Everything of `partition` below `position` was read."""

    partition: int
    position: int


class Deleted(Protocol):
    """Takes note of what is deleted."""

    def delete(self, partition: int, before_offset: int) -> None:
        """Its records below are to be deleted."""


class DelayChaos(ClusterChaos):
    """Deletes what its reader has read, and no more."""

    def __init__(self, cluster: Cluster, dice: Any, followers: Sequence[Reader], history: Deleted) -> None:
        super().__init__(cluster, dice)
        self._followers = followers
        self._history = history

    async def _delete_records(self) -> None:
        follower = self._dice.choice(self._followers)
        before_offset = self._dice.randint(0, follower.position)
        wanted = delete_records_request.DeleteRecordsPartition(partition_index=follower.partition, offset=before_offset)
        topic = delete_records_request.DeleteRecordsTopic(name=TOPIC, partitions=[wanted])
        request = delete_records_request.DeleteRecordsRequest(topics=[topic], timeout_ms=5_000)
        client = self._cluster.client("deleter")
        self._history.delete(follower.partition, before_offset)
        try:
            answer = await client.request(ApiKey.DELETE_RECORDS, 2, request)
            result = answer.topics[0].partitions[0]
            expect(result.error_code)
            self._outcome.deletions += 1
        except (Disconnected, Unhappy):
            pass
        finally:
            client.disconnect()


class Delays(Cluster):
    name = "delay"
    may_age = False

    def __init__(self, seed: int, rates: FaultRates, is_looking_inside: bool = True) -> None:
        super().__init__(seed, rates, is_looking_inside)
        self.delays = DelayHistory(self._true_ms)
        self.followers: list[Follower] = []
        self._differences_ms = self._dice("clocks").choice(DIFFERENCES_MS)
        self._habits = DelayHabits.of(self._dice("habits"), self.kind.pace_s)
        self._is_late = False  # all clocks are behind every due time that was asked for

    def _true_ms(self) -> int:
        return SimulatedClock(self.loop).now_ms()

    def _kind(self) -> ClusterKind:
        kind = super()._kind()
        return dataclasses.replace(kind, is_making_topics=False, is_deleting=self._dice("deleting").random() < 0.3)

    def _clock(self, node_id: int, number: int) -> SimulatedClock:
        dice = self._dice(f"clock {node_id} {number}")
        ahead_ms = dice.choice((-1, 1)) * dice.choice(self._differences_ms)
        if self._is_late:
            ahead_ms = 3 * HOUR_MS
        self.delays.ahead_ms = max(self.delays.ahead_ms, ahead_ms)
        self.delays.behind_ms = max(self.delays.behind_ms, -ahead_ms)
        return SkewedClock(self.loop, ahead_ms)

    # --- the run

    async def run(self) -> None:
        with small_runs() if self._dice("runs").random() < SMALL_RUNS_SHARE else nullcontext():
            await self._run()

    async def _run(self) -> None:
        for node_id in self.kind.roles:
            self.start_node(node_id)
        watching = self.loop.create_task(self.watch())
        admin = self.client("admin")
        await create_topic(admin, PARTITIONS, {**self.kind.topic_configs(), "bmq.delay.enable": "true"})
        producers: list[DelayProducer] = [
            self.client(f"p{number}", DelayProducer, self.delays, PARTITIONS, self._habits, self._check_acknowledged)
            for number in range(PRODUCERS)
        ]
        self.followers = [
            self.client(f"follower{number}", Follower, self.delays, number) for number in range(PARTITIONS)
        ]
        following = [self.loop.create_task(one.run()) for one in self.followers]
        chaos = self.loop.create_task(DelayChaos(self, self._dice("chaos"), self.followers, self.delays).run())
        sending = asyncio.gather(*(one.run(BATCHES_PER_PRODUCER, lambda: not chaos.done()) for one in producers))
        await until_done((chaos, sending), (watching, *following))
        watching.cancel()
        self._is_late = self._differences_ms[-1] >= HOUR_MS // 2
        self._calm()
        watching = self.loop.create_task(self.watch())
        checking = self.loop.create_task(self._check_settled(admin))
        await until_done((checking,), (watching, *following))
        for task in (watching, *following):
            task.cancel()
        self._count(producers)

    def _count(self, producers: list[DelayProducer]) -> None:
        outcome, counts = self.outcome, self.delays.counts()
        self.history.acknowledged_batches = sum(one.batch_count for one in producers)
        self.history.shortages = sum(one.shortages for one in producers)
        outcome.moves = self.rules.moves
        outcome.timers_delivered, outcome.timers_plain = counts["delivered"], counts["plain"]
        outcome.timers_cancelled, outcome.timers_too_late = counts["cancelled"], counts["refused"]

    async def _check_settled(self, admin: Client) -> None:
        """Everything that was acknowledged is delivered, and nothing more comes then."""
        deadline_s, fewest = self.loop.time() + SETTLE_S, len(self.delays.names)
        while missing := self.delays.missing():
            if len(missing) < fewest:
                deadline_s, fewest = self.loop.time() + SETTLE_S, len(missing)
            if self.loop.time() > deadline_s:
                raise Violation(f"{len(missing)} records reach nobody: {[value[:20] for value in missing[:5]]}")
            await asyncio.sleep(0.2)
        await admin.until_done(partial(self._until_nothing_waits))
        for number in range(PARTITIONS):
            self.delays.check_final(number, *await read_everything(admin, number))
        self.check_now()

    async def _until_nothing_waits(self) -> None:
        """What was sent and never acknowledged may wait too."""
        latest_ms = max(
            (max(one.at_ms, one.time_ms + one.after_ms) for one in self.delays.asked.values()), default=now_ms()
        )
        if not self._is_late and now_ms() < latest_ms + self.delays.ahead_ms + self.delays.behind_ms + 2_000:
            raise Unhappy("something may be due later")
        if not self.rules.is_looking_inside:
            return
        for node in self.nodes.values():
            runtimes = () if node.roles is None else tuple(node.roles.manager._started)
            if any(view.count for one in runtimes if (view := one.timers.view) is not None):
                raise Unhappy("records wait")
