"""Who writes in transactions: writers and copiers, each under an id that other clients take over while it stands still."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bmq.coordinator.transactions.transaction import MAX_EPOCH
from bmq.protocol.error_codes import ErrorCode
from tests.simulation.check_answers import Database
from tests.simulation.clients import GROUP_KEY, Client, Consumer, Unhappy, find_coordinator
from tests.simulation.committed_reads import fetch, group_offsets
from tests.simulation.connection import Disconnected
from tests.simulation.history import History
from tests.simulation.outcome import Outcome
from tests.simulation.producer_epochs import TransactionalId
from tests.simulation.transaction_history import Ending, Place, TransactionHistory, new_value
from tests.simulation.transactional_producer import Member, MustAbort, Refused, TransactionalProducer

GROUP = "copiers"
TIMEOUTS_S = (1.5, 5.0, 20.0)
SESSIONS_MS = (1_500, 6_000)  # of copying members: others take over while one stands still, or wait for it
DEATH_RATE = 0.05  # of clients between the commit of their database and that of their transaction
_COPIED_MAX = 6  # records in one transaction


@dataclass(slots=True)
class Habits:
    """How often a client of a seed does what it should not: chances per step, seconds on average."""

    pause_rate: float
    pause_s: float
    crash_rate: float
    late_rate: float
    commit_rate: float
    pace_s: float
    successor_s: float  # until somebody else takes its id, whether it is still there or not
    timeouts_s: Sequence[float]

    @classmethod
    def of(cls, dice: random.Random) -> Habits:
        return cls(
            pause_rate=dice.choice((0.0, 0.05, 0.15)),
            pause_s=dice.choice((0.5, 3.0, 8.0)),
            crash_rate=dice.choice((0.0, 0.03)),
            late_rate=dice.choice((0.0, 0.0, 0.05, 0.15)),
            commit_rate=dice.choice((0.5, 0.8, 1.0)),
            pace_s=dice.choice((0.02, 0.2, 0.5)),
            successor_s=dice.choice((2.0, 6.0, 20.0)),
            timeouts_s=dice.choice((TIMEOUTS_S, TIMEOUTS_S[:1], TIMEOUTS_S[1:])),
        )


class Crashed(Exception):
    """The client is gone, in the middle of whatever it did."""


@dataclass(slots=True)
class World:
    """What all of them share. `make(name, class, …)`: a client that knows where to go. `failure` gets the first violation."""

    make: Callable[..., Any]
    history: TransactionHistory
    habits: Habits
    dice: random.Random
    failure: asyncio.Future[None]
    on_end: Callable[[], None]  # somebody is about to end a transaction
    last_epoch: int = MAX_EPOCH
    database: Database | None = None  # of applications that are asked back
    producers: list[TransactionalProducer] = field(default_factory=list)
    identities: list[TransactionalId] = field(default_factory=list)
    zombie_count: int = 0

    def identity(self, name: str) -> TransactionalId:
        identity = TransactionalId(name, asyncio.get_running_loop().time, self.last_epoch)
        self.identities.append(identity)
        return identity

    def producer(self, name: str, identity: TransactionalId) -> TransactionalProducer:
        is_bumping, timeout_s = self.dice.random() < 0.6, self.dice.choice(self.habits.timeouts_s)
        producer: TransactionalProducer = self.make(
            name, TransactionalProducer, self.history, identity, is_bumping, timeout_s
        )
        producer.late.rate = self.habits.late_rate
        producer.database = self.database
        self.producers.append(producer)
        return producer

    async def maybe_stop(self) -> None:
        """Stand still for a while, or for ever."""
        if self.dice.random() < self.habits.crash_rate:
            raise Crashed
        if self.dice.random() < self.habits.pause_rate:
            await asyncio.sleep(self.dice.expovariate(1 / self.habits.pause_s))

    async def end(self, producer: TransactionalProducer) -> None:
        """Commit or abort; sometimes that is the last that is heard of the client. Raises Refused, MustAbort, Crashed."""
        await self.maybe_stop()
        self.on_end()
        if self.dice.random() < self.habits.crash_rate:
            producer.commit_late()
            raise Crashed
        is_committing = self.dice.random() < self.habits.commit_rate
        if is_committing:
            await producer.send_check_id()
        if not is_committing or not producer.commit_database():
            await producer.abort()
            return
        if self.database is not None:
            if self.dice.random() < DEATH_RATE:
                raise Crashed
            await self.maybe_stop()
        await producer.commit()

    def count(self, outcome: Outcome) -> None:
        endings = [one.ending for one in self.history.transactions]
        outcome.transactions_committed = endings.count(Ending.COMMITTED)
        outcome.transactions_aborted = endings.count(Ending.ABORTED)
        outcome.transactions_unknown = len(endings) - outcome.transactions_committed - outcome.transactions_aborted
        outcome.producers_refused = sum(identity.refused_count for identity in self.identities)
        outcome.late_requests = sum(producer.late.count for producer in self.producers)
        outcome.zombies = self.zombie_count
        if self.database is not None:
            outcome.committed_by_check = self.database.committed_without_their_client
            outcome.transactions_asked = self.database.asked_count
        outcome.rotations = sum(identity.rotations for identity in self.identities)


class Succession:
    """One transactional id: its clients follow each other, and do not always wait for the one before to be gone."""

    def __init__(
        self, world: World, name: str, live: Callable[[TransactionalProducer], Coroutine[Any, Any, None]]
    ) -> None:
        self._world = world
        self._name = name
        self._live = live
        self._identity = world.identity(name)
        self._lives: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        world, number = self._world, 0
        try:
            while True:
                number += 1
                producer = world.producer(f"{self._name}.{number}", self._identity)
                life = asyncio.get_running_loop().create_task(self._until_over(producer))
                self._lives.add(life)
                life.add_done_callback(self._ended)
                await asyncio.wait({life}, timeout=1.0 + world.dice.expovariate(1 / world.habits.successor_s))
                world.zombie_count += not life.done()
        finally:
            for life in self._lives:
                life.cancel()

    async def _until_over(self, producer: TransactionalProducer) -> None:
        try:
            await self._live(producer)
        except (Refused, Crashed):
            producer.disconnect()

    def _ended(self, life: asyncio.Task[None]) -> None:
        self._lives.discard(life)
        error = None if life.cancelled() else life.exception()
        if error is not None and not self._world.failure.done():
            self._world.failure.set_exception(error)


class Writing:
    """A producer's records, over several partitions in each transaction."""

    def __init__(self, world: World, places: Sequence[Place]) -> None:
        self._world = world
        self._places = places

    async def live(self, producer: TransactionalProducer) -> None:
        world, count = self._world, 0
        await producer.start()
        while True:
            producer.begin()
            try:
                for _ in range(world.dice.randint(1, 3)):
                    batches = {}
                    for place in world.dice.sample(self._places, world.dice.randint(1, len(self._places))):
                        values = []
                        for _ in range(world.dice.randint(1, 2)):
                            count += 1
                            values.append(world.history.next_value(producer.name, count))
                        batches[place] = values
                    await producer.send(batches)
                    await world.maybe_stop()
                await world.end(producer)
            except MustAbort:
                await producer.abort()
            await asyncio.sleep(world.dice.expovariate(1 / world.habits.pace_s))


class Copying:
    """Consume, transform, produce: records and the offsets they were read at go into one transaction."""

    def __init__(self, world: World, source: str, targets: Sequence[Place]) -> None:
        self.world = world
        self.source = source
        self._targets = targets
        self._counts: dict[str, int] = {}

    async def copy_some(
        self, reader: Client, producer: TransactionalProducer, positions: dict[int, int], member: Member
    ) -> bool:
        """One transaction with what comes next in some partitions; False: nothing. `positions` move when it is committed.

        Raises Disconnected, Unhappy (of reading), Refused, MustAbort (it has to be aborted), Crashed.
        """
        world = self.world
        found: dict[int, tuple[int, list[tuple[int, bytes]]]] = {}
        for partition in world.dice.sample(sorted(positions), world.dice.randint(1, len(positions))):
            read = await fetch(reader, world.history, (self.source, partition), positions[partition], 100)
            if read.end > positions[partition]:
                records = list(read.records)
                end = read.end if len(records) <= _COPIED_MAX else records[_COPIED_MAX][0]
                found[partition] = end, records[:_COPIED_MAX]
        if not any(records for _, records in found.values()):
            return False
        producer.begin()
        for partition, (_, records) in found.items():
            for offset, _ in records:
                number = self._counts[producer.name] = self._counts.get(producer.name, 0) + 1
                value = new_value(producer.name, number, (partition, offset))
                await producer.send({world.dice.choice(self._targets): [value]})
        await world.maybe_stop()
        offsets = {partition: end for partition, (end, _) in found.items()}
        await producer.send_offsets(GROUP, self.source, offsets, member)
        await world.end(producer)
        if producer.transaction.ending is Ending.COMMITTED:
            positions.update(offsets)
        return True

    async def live(self, producer: TransactionalProducer, partition: int) -> None:
        """Copies one partition under an id of its own: who takes the id over goes on where this one was committed."""
        world = self.world
        await producer.start()
        await producer.until_done(lambda: find_coordinator(producer, GROUP, GROUP_KEY))

        async def positions() -> dict[int, int]:
            return await group_offsets(producer, world.history, GROUP, self.source, [partition], is_stable=True)

        at = await producer.until_done(positions)
        while True:
            try:
                await self.copy_some(producer, producer, at, Member())
            except MustAbort:
                await producer.abort()
            except Unhappy:
                pass
            except Disconnected:
                producer.disconnect()
            await asyncio.sleep(world.dice.expovariate(1 / world.habits.pace_s))


class CopyingMember(Consumer):
    """A member of a classic group that copies what it is assigned; its offsets carry its generation (KIP-447)."""

    GROUP = GROUP

    def __init__(
        self, name: str, address: Any, rng: random.Random, group: History, partitions: int, copying: Copying,
        producer: TransactionalProducer,
    ) -> None:  # fmt: skip
        super().__init__(name, address, rng, group, partitions)
        self.session_timeout_ms = rng.choice(SESSIONS_MS)
        self._copying = copying
        self._producer = producer

    async def run(self) -> None:
        await self._producer.start()
        await super().run()

    async def _fetch_positions(self) -> None:
        """What others have committed for certain: their open transactions are waited for."""
        copying = self._copying
        self._positions = await group_offsets(
            self, copying.world.history, GROUP, copying.source, self._mine, is_stable=True
        )

    async def _read_until_rebalance(self) -> None:
        world, member = self._copying.world, Member(self._member_id, self._generation)
        while True:
            try:
                await self._heartbeat()
            except Unhappy:
                return
            try:
                if self._mine:
                    await self._copying.copy_some(self, self._producer, self._positions, member)
            except MustAbort as error:
                await self._producer.abort()
                if str(error) == ErrorCode.UNKNOWN_MEMBER_ID.name:
                    self._member_id = ""
                return
            except Unhappy:
                pass
            await asyncio.sleep(world.dice.expovariate(1 / world.habits.pace_s))


def copying_members(
    world: World, copying: Copying, partitions: int, count: int
) -> Mapping[str, Callable[[TransactionalProducer], Coroutine[Any, Any, None]]]:
    """Lives of `count` members, by transactional id."""
    group = History()

    def live_of(name: str) -> Callable[[TransactionalProducer], Coroutine[Any, Any, None]]:
        async def live(producer: TransactionalProducer) -> None:
            member: CopyingMember = world.make(
                f"{producer.name} member", CopyingMember, group, partitions, copying, producer
            )
            try:
                await member.run()
            finally:
                member.disconnect()

        return live

    return {name: live_of(name) for name in (f"m{number}" for number in range(count))}
