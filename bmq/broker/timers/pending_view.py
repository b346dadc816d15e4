"""The pending delayed records of one partition, for operators (`bmq topic timers`)."""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.broker.timers.pending_runs import PendingRuns
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import PAGE_MAX, DelayedPage
from bmq.log.timers.due_order import DueOrder

OPENED_RECORDS: Final = 1_000
"""Held records that are sorted in one turn of the event loop; it takes some 2 ms."""
OPENINGS_MAX: Final = 200
"""Most turns for one page: enough to sort all records in memory. Without a bound, new records could keep it going."""


class PendingView:
    """The pending records at one owner. A record that is being delivered does not count as pending."""

    def __init__(self, order: DueOrder, runs: PendingRuns) -> None:
        self._order = order
        self._runs = runs

    @property
    def count(self) -> int:
        """Upper bound of the pending records: in runs it counts cancelled records, and delivered ones of a run not read yet."""
        return self._order.window_waiting_count + self._runs.count

    @property
    def first_due_ms(self) -> int | None:
        """Due time of the first pending record, perhaps in the past; None: no record is pending."""
        return self._order.first_due_ms

    async def page(self, after: Position, limit: int) -> DelayedPage:
        """The first pending records behind the place `after`: at most `limit`, and PAGE_MAX. Raises BmqError, StoreError."""
        limit = min(limit, PAGE_MAX)
        for _ in range(OPENINGS_MAX):
            if not self._order.open_some(OPENED_RECORDS):
                break
            await asyncio.sleep(0)
        in_runs = await self._runs.listed(after, limit)
        found = sorted((*self._order.listed(after, limit), *in_runs))[:limit]
        return DelayedPage(self.count, self.first_due_ms, tuple(found))
