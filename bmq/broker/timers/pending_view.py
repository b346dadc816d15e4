"""What waits in one partition, for those who look from outside."""

from __future__ import annotations

from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import PAGE_MAX, DelayedPage
from bmq.log.timers.due_order import DueOrder


class PendingView:
    """Of one owner. What is being delivered at the moment does not wait any more."""

    def __init__(self, order: DueOrder) -> None:
        self._order = order

    @property
    def count(self) -> int:
        return self._order.waiting_count

    @property
    def first_due_ms(self) -> int | None:
        """When the first one is due, perhaps in the past; None: none waits."""
        return self._order.first_due_ms

    async def page(self, after: Position, limit: int) -> DelayedPage:
        """The first `limit` ones behind this place in the order, PAGE_MAX at most."""
        return DelayedPage(self.count, self.first_due_ms, self._order.listed(after, min(limit, PAGE_MAX)))
