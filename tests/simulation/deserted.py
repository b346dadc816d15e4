"""Transactions whose clients die when all else is calm, and the new instances that come for their ids.

Nothing hurts the cluster, so every owner lives through the times of its checks: each of these transactions is asked about before it is
aborted, by its time-out or by a new instance, and a new instance waits for the question and gives the application its time. What the
database has committed is aborted only after that.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from bmq.coordinator.transactions.check_back import RESTART_ASK_MAX_MS, RESTART_SILENCE_MAX_MS, RESTART_WAIT_MS
from tests.simulation.check_answers import Application, Entry
from tests.simulation.clients import Unhappy
from tests.simulation.connection import Disconnected
from tests.simulation.history import Violation
from tests.simulation.outcome import Outcome
from tests.simulation.producer_epochs import TransactionalId
from tests.simulation.transaction_crowd import World
from tests.simulation.transaction_history import Place
from tests.simulation.transactional_producer import MustAbort, Refused, TransactionalProducer

IDS_COUNT = 8
TIMEOUTS_S = (30.0, 40.0)
WAYS = ("nobody", "again", "again", "twice", "late")
SILENCE_S = RESTART_SILENCE_MAX_MS / 1000 + 2.0


@dataclass(slots=True)
class Deserted:
    """`restarted_s`: when the last new instance came, `let_in_s`: when it was answered; infinite without one."""

    entry: Entry
    value: bytes
    begun_s: float
    timeout_s: float
    restarted_s: float = inf
    let_in_s: float = inf

    @property
    def name(self) -> str:
        return self.entry.transaction.name


class DesertedIds:
    def __init__(
        self,
        world: World,
        places: Sequence[Place],
        application: Application,
        dice: random.Random,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.deserted: list[Deserted] = []
        self._world = world
        self._places = places
        self._application = application
        self._dice = dice
        self._loop = loop

    async def run(self) -> None:
        """Returns when the last of them has ended by its time-out at least."""
        await asyncio.gather(*(self._one(f"wd{number}") for number in range(IDS_COUNT)))
        await asyncio.sleep(
            max((one.begun_s + one.timeout_s + 5.0 - self._loop.time() for one in self.deserted), default=0.0)
        )

    async def _one(self, name: str) -> None:
        identity, way = self._world.identity(name), self._dice.choice(WAYS)
        producer = self._producer(identity, 1)
        await producer.start()
        one = await self._begun(producer)
        if one is None:
            return
        if way == "late":
            await self._until_asked(one)
        if way == "twice":
            await self._try(identity, 2)
            await asyncio.sleep(SILENCE_S)
        if way in ("late", "twice") or self._dice.random() < 0.7:
            producer.commit_database()
        producer.disconnect()
        if way == "again":
            await asyncio.sleep(self._dice.uniform(0.0, 3.0))
        if way != "nobody":
            successor = self._producer(identity, 3)
            one.restarted_s = self._loop.time()
            await successor.start()
            one.let_in_s = self._loop.time()
            successor.disconnect()

    def _producer(self, identity: TransactionalId, number: int) -> TransactionalProducer:
        world = self._world
        producer: TransactionalProducer = world.make(
            f"{identity.name}.{number}", TransactionalProducer, world.history, identity, self._dice.random() < 0.6,
            self._dice.choice(TIMEOUTS_S),
        )  # fmt: skip
        producer.database = world.database
        return producer

    async def _begun(self, producer: TransactionalProducer) -> Deserted | None:
        """All of it is acknowledged. None: it was refused."""
        begun_s = self._loop.time()
        transaction = producer.begin()
        value = self._world.history.next_value(producer.name, 1)
        try:
            await producer.send({self._dice.choice(self._places): [value]})
            await producer.send_check_id()
        except (Refused, MustAbort):
            return None
        entry = self._application.database.entry_of(transaction)
        one = Deserted(entry, value, begun_s, producer.timeout_s)
        self.deserted.append(one)
        return one

    async def _until_asked(self, one: Deserted) -> None:
        """Or until its time is over."""
        try:
            async with asyncio.timeout_at(one.begun_s + one.timeout_s):
                await one.entry.was_asked.wait()
        except TimeoutError:
            pass

    async def _try(self, identity: TransactionalId, number: int) -> None:
        """An instance that asks once, and gives up."""
        producer = self._producer(identity, number)
        try:
            await producer.start_once()
        except (Unhappy, Disconnected):
            pass
        producer.disconnect()

    # --- what must hold

    def check(self, committed: Mapping[Place, Sequence[tuple[int, bytes]]], outcome: Outcome) -> None:
        """`committed`: what readers of committed records see in the end."""
        seen = {value for records in committed.values() for _, value in records}
        for one in self.deserted:
            outcome.deserted += 1
            if one.value in seen:
                outcome.deserted_committed += 1
            else:
                self._check_aborted(one, outcome)

    def _check_aborted(self, one: Deserted, outcome: Outcome) -> None:
        end_s = one.begun_s + one.timeout_s
        if one.let_in_s >= end_s:  # its time-out has aborted it, before its new instance or without one
            if any(asked_s <= end_s + 2.0 for asked_s in one.entry.asked_s):
                outcome.deserted_asked += 1
            elif self._application.room_s:
                outcome.deserted_not_askable += 1
            else:
                raise Violation(f"{one.name} was aborted by its time-out, and nobody was asked")
            return
        waited_s = one.let_in_s - one.restarted_s
        questions_s = [asked_s for asked_s in one.entry.asked_s if one.restarted_s <= asked_s <= one.let_in_s]
        if not questions_s:
            if waited_s < RESTART_ASK_MAX_MS / 1000:
                raise Violation(
                    f"{one.name} was aborted {waited_s:.3f} s after its new instance came, and nobody was asked"
                )
            outcome.deserted_not_askable += 1
            return
        outcome.deserted_asked += 1
        given_s = one.let_in_s - questions_s[0]
        if one.entry.transaction.may_be_seen and given_s < RESTART_WAIT_MS / 1000:
            raise Violation(f"{one.name} is in the database, and was aborted {given_s:.3f} s after the question")
