"""A checker that answers from a table, and remembers what it was asked."""

from __future__ import annotations

import asyncio

from bmq.coordinator.transactions.check_back import CheckPolicy
from bmq.coordinator.transactions.checker import CheckAnswers, CheckRound, TransactionCheck
from bmq.protocol.errors import BmqError


class FakeTransactionChecker:
    """`answers`: transactional id -> whether it commits. `failure`: raised instead, after `take`. `gate`: answers wait for it.
    `room`: requests wait for it before they take checks. `is_reached`: False: check ids are not found, and nobody is asked.
    `without`: ids that have nothing to be asked by. `is_final`: those without an answer are said to be undecided.
    """

    def __init__(self) -> None:
        self.answers: dict[str, bool] = {}
        self.failure: BmqError | None = None
        self.is_final = True
        self.is_reached = True
        self.without: set[str] = set()
        self.room = asyncio.Event()
        self.room.set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.asked: list[TransactionCheck] = []

    async def ask(self, policy: CheckPolicy, checks: CheckRound) -> CheckAnswers:
        await self.room.wait()
        taken = await checks.take()
        checks.left_undecided(self.without)
        taken = [one for one in taken if one.transactional_id not in self.without]
        if not self.is_reached:
            return CheckAnswers({}, (), [one.transactional_id for one in taken])
        checks.asked(taken)
        self.asked.extend(taken)
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        ids = [one.transactional_id for one in taken]
        decided = {one: self.answers[one] for one in ids if one in self.answers}
        return CheckAnswers(decided, [one for one in ids if one not in decided] if self.is_final else ())

    @property
    def numbers(self) -> list[int]:
        return [one.number for one in self.asked]
