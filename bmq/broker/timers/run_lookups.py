"""Whether a record that is to be cancelled is in a run: looked up in the background, for a producer that sends again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import structlog
from cachetools import LRUCache

from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.timers.pending_runs import PendingRuns
from bmq.log.store import StoreError
from bmq.log.timers.announcements import Position
from bmq.protocol.errors import BmqError

KNOWN_MAX: Final = 20_000
WAITING_MAX: Final = 10_000
"""Lookups that wait. Further ones are not noted: their producer sends again in any case."""

_log = structlog.get_logger("bmq.broker")


class RunLookups:
    """`unknown`: what `is_in_run` could not tell, since it was last cleared."""

    def __init__(self, partition: OwnedPartition, runs: PendingRuns) -> None:
        self._partition = partition
        self._runs = runs
        self._known: LRUCache[Position, bool] = LRUCache(KNOWN_MAX)
        self._waiting: dict[Position, None] = {}
        self._is_running = False
        self.unknown: list[Position] = []

    def is_in_run(self, place: Position) -> bool:
        """True, if it is not known."""
        found = self._known.get(place)
        if found is None:
            self.unknown.append(place)
        return found is not False

    def look_up(self, places: Sequence[Position]) -> None:
        """Find out, soon."""
        for place in places[: max(0, WAITING_MAX - len(self._waiting))]:
            self._waiting[place] = None
        if self._waiting and not self._is_running:
            self._is_running = True
            self._partition.machine.spawn(self._run())

    def forget(self) -> None:
        """There are runs of other records now. A lookup under way may have missed them."""
        self._known.clear()
        self._waiting.clear()

    async def _run(self) -> None:
        try:
            while self._waiting and not self._partition.state.is_final:
                place = next(iter(self._waiting))
                found = await self._runs.has(place)
                if self._waiting.pop(place, place) is None:
                    self._known[place] = found
        except (BmqError, StoreError) as error:
            self._waiting.clear()
            _log.warning("cancellations_wait", **self._partition.names(), reason=str(error))
        finally:
            self._is_running = False
