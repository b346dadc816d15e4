"""Appends of one partition that wait behind a batch which is being opened elsewhere: they keep their order.

An idempotent producer has several batches on their way; one that overtakes another would be refused as out of order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from bmq.broker.append_budget import AppendBudget
from bmq.broker.batch_validation import BatchValidator
from bmq.broker.opener import Opened, Opener
from bmq.log.partition_log import AppendResult, ProducedBatch
from bmq.protocol.error_codes import ErrorCode

APPENDS_PER_TURN_MAX: Final = 64
"""That are taken up again in one turn of the event loop."""


TakeUp = Callable[[ProducedBatch, Opened | None, int], None]
"""Goes on with a batch: as it was opened at that time in ms, or None: it only waited, and is all to be done."""


class AppendQueue:
    """Bounded by the budget of all appends: one that does not fit is refused.

    While there are `appends`, every further one has to come here too.
    """

    __slots__ = ("_budget", "_is_due", "_loop", "_opening", "_take_up", "appends")

    def __init__(self, loop: asyncio.AbstractEventLoop, budget: AppendBudget, take_up: TakeUp) -> None:
        self._loop = loop
        self._budget = budget
        self._take_up = take_up
        self.appends: deque[ProducedBatch] = deque()
        self._opening: object | None = None  # the present opening of the first of them
        self._is_due = False

    def add(self, batch: ProducedBatch) -> bool:
        """Queue an append behind the others. False: too many bytes are on their way."""
        if not self._budget.take(len(batch.records)):
            return False
        self.appends.append(batch)
        return True

    def open(self, batch: ProducedBatch, opener: Opener, validator: BatchValidator, now_ms: int) -> bool:
        """Have a batch opened, in front of the queue. False: too many bytes are on their way."""
        if not self._budget.take(len(batch.records)):
            return False
        self.appends.appendleft(batch)
        opening = self._opening = object()

        def opened(outcome: Opened) -> None:
            if self._opening is opening:
                self._opening = None
                self._next(outcome, now_ms)

        opener.open(validator, batch.records, now_ms, opened)
        return True

    def refuse_all(self, code: ErrorCode) -> int:
        """Refuse all queued appends, and the one that is being opened. Returns their number."""
        appends, self.appends = self.appends, deque()
        self._opening = None
        for batch in appends:
            self._budget.give_back(len(batch.records))
            batch.complete(AppendResult(code))
        return len(appends)

    def _next(self, outcome: Opened | None, now_ms: int) -> None:
        for _ in range(APPENDS_PER_TURN_MAX):
            if not self.appends or self._opening is not None:
                return
            batch = self.appends.popleft()
            self._budget.give_back(len(batch.records))
            self._take_up(batch, outcome, now_ms)
            outcome = None
        if self.appends and self._opening is None and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        self._next(None, 0)
