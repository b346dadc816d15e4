"""A way to transaction coordinators whose answers a test chooses, and when they come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from bmq.log.transactions import TransactionClaim
from bmq.protocol.error_codes import ErrorCode


@dataclass(frozen=True)
class Question:
    claim: TransactionClaim
    producer_id: int
    producer_epoch: int
    topic: str
    partitions: tuple[int, ...]
    answer: asyncio.Future[ErrorCode] = field(compare=False)


class FakeVerifier:
    """Implements bmq.log.transactions.TransactionVerifier.

    Answers with the next of `codes`, or with NONE when there is none left; while `is_holding`, not before the test settles
    the question's `answer`. `fails_with`: raised instead.
    """

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = deque(codes)
        self.is_holding = False
        self.fails_with: Exception | None = None
        self.asked: list[Question] = []

    async def verify(
        self, claim: TransactionClaim, producer_id: int, producer_epoch: int, topic: str, partitions: Sequence[int]
    ) -> Sequence[ErrorCode]:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.asked.append(Question(claim, producer_id, producer_epoch, topic, tuple(partitions), answer))
        if self.fails_with is not None:
            raise self.fails_with
        if not self.is_holding:
            answer.set_result(self.codes.popleft() if self.codes else ErrorCode.NONE)
        code = await answer
        return [code] * len(partitions)
