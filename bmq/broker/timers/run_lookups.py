"""Finds out whether a record to cancel is in a run, in the background: meanwhile its cancellation gets a retriable error."""

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
"""Most lookups that wait. Further ones are dropped: their producers send the cancellation again in any case."""

_log = structlog.get_logger("bmq.broker")


class RunLookups:
    """Remembers for KNOWN_MAX places whether a run has a record there.

    `unknown`: places that `is_in_run` was asked for without knowing, since the caller last cleared the list.
    """

    def __init__(self, partition: OwnedPartition, runs: PendingRuns) -> None:
        self._partition = partition
        self._runs = runs
        self._known: LRUCache[Position, bool] = LRUCache(KNOWN_MAX)
        self._waiting: dict[Position, None] = {}
        self._is_running = False
        self.unknown: list[Position] = []

    def is_in_run(self, place: Position) -> bool:
        """Whether a run has a record at this place; True, and an entry in `unknown`, if that is not known yet."""
        found = self._known.get(place)
        if found is None:
            self.unknown.append(place)
        return found is not False

    def look_up(self, places: Sequence[Position]) -> None:
        """Look these places up in the background."""
        for place in places[: max(0, WAITING_MAX - len(self._waiting))]:
            self._waiting[place] = None
        if self._waiting and not self._is_running:
            self._is_running = True
            self._partition.machine.spawn(self._run())

    def forget(self) -> None:
        """Forget all answers: runs of other records were added, which a lookup under way may have missed."""
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
