"""What waits in one partition, for those who look from outside."""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.broker.timers.pending_runs import PendingRuns
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import PAGE_MAX, DelayedPage
from bmq.log.timers.due_order import DueOrder

OPENED_RECORDS: Final = 1_000
"""In one turn of the event loop: some 2 ms."""
OPENINGS_MAX: Final = 200
"""Enough for all that is in memory; more may come meanwhile."""


class PendingView:
    """What waits at one owner. A record that is being delivered does not wait any more."""

    def __init__(self, order: DueOrder, runs: PendingRuns) -> None:
        self._order = order
        self._runs = runs

    @property
    def count(self) -> int:
        """In runs, also what was cancelled there, and of a run that was not looked into, what was delivered."""
        return self._order.window_waiting_count + self._runs.count

    @property
    def first_due_ms(self) -> int | None:
        """When the first one is due, perhaps in the past; None: none waits."""
        return self._order.first_due_ms

    async def page(self, after: Position, limit: int) -> DelayedPage:
        """The first `limit` ones behind this place in the order, PAGE_MAX at most. Raises BmqError, StoreError."""
        limit = min(limit, PAGE_MAX)
        for _ in range(OPENINGS_MAX):
            if not self._order.open_some(OPENED_RECORDS):
                break
            await asyncio.sleep(0)
        in_runs = await self._runs.listed(after, limit)
        found = sorted((*self._order.listed(after, limit), *in_runs))[:limit]
        return DelayedPage(self.count, self.first_due_ms, tuple(found))
