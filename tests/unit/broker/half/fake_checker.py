"""A checker that answers from a table, and remembers what it was asked and given."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from bmq.broker.half_checker import CheckAnswer, CheckRequest, CheckTarget
from bmq.protocol.batch_records import Record
from bmq.protocol.errors import BmqError


class FakeChecker:
    """`answers`: check id -> True for commit, False for rollback. `failure`: raised instead. `room`: requests at once.
    `asked`: calls of `ask`.
    """

    def __init__(self) -> None:
        self.answers: dict[str, bool] = {}
        self.failure: BmqError | None = None
        self.copy_failure: BmqError | None = None
        self.requests: list[tuple[CheckTarget, CheckRequest]] = []
        self.copies: list[tuple[str, int, Record]] = []
        self.delay_s = 0.0
        self.room = asyncio.Semaphore(1_000)
        self.asked = 0

    async def ask(self, target: CheckTarget, take: Callable[[], Awaitable[CheckRequest | None]]) -> CheckAnswer | None:
        self.asked += 1
        async with self.room:
            request = await take()
            if request is None:
                return None
            self.requests.append((target, request))
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
        if self.failure is not None:
            raise self.failure
        said = [(check.offset, self.answers.get(check.check_id)) for check in request.checks]
        return CheckAnswer(
            tuple(offset for offset, answer in said if answer is True),
            tuple(offset for offset, answer in said if answer is False),
        )

    async def copy(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        if self.copy_failure is not None:
            raise self.copy_failure
        self.copies.extend((topic, partition, record) for record in records)

    async def close(self) -> None:
        pass

    @property
    def numbers(self) -> list[tuple[str, int]]:
        """(check id, number) of all checks that were asked."""
        return [(check.check_id, check.number) for _, request in self.requests for check in request.checks]
