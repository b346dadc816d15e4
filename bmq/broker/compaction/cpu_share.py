"""The share of a CPU that the process that cleans logs may use while producers write.

Two processors that are busy slow each other down, whatever their priorities. So that producers do not notice a cleaning,
it runs for a part of the time only. A cleaning that goes on for long gets more of the time, because logs must not grow
faster than they are cleaned.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bmq.broker.context import BrokerContext
from bmq.log.compaction import LogCleaning

WHOLE: Final = 1.0
ADJUST_INTERVAL_S: Final = 0.2
DOUBLED_AFTER_S: Final = 600.0


def share_of_time(busy_share: float, at_work_s: float, *, are_producers_there: bool) -> float:
    """`busy_share`: beside producers. `at_work_s`: how long there was always something to clean."""
    if not are_producers_there:
        return WHOLE
    doublings = min(at_work_s / DOUBLED_AFTER_S, 64.0)
    return min(WHOLE, busy_share * float(1 << int(doublings)))


class CleanerCpuShare:
    """Sets a cleaning's share of the CPU while there is something to clean."""

    def __init__(self, context: BrokerContext, cleaning: LogCleaning) -> None:
        self._context = context
        self._cleaning = cleaning
        self._began_s = 0.0
        self._appended_before = 0
        self._next: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """There is something to clean, until `end`. At first anything written since then counts as a producer's."""
        if self._next is None:
            self._began_s = asyncio.get_running_loop().time()
            self._adjust()

    def end(self) -> None:
        """Nothing is left to clean."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _adjust(self) -> None:
        loop = asyncio.get_running_loop()
        appended = self._context.counts.appended_batches
        share = share_of_time(
            self._context.settings.compaction_busy_share,
            loop.time() - self._began_s,
            are_producers_there=appended != self._appended_before,
        )
        self._appended_before = appended
        self._cleaning.use_share(share)
        self._next = loop.call_later(ADJUST_INTERVAL_S, self._adjust)
