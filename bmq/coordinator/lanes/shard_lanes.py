"""The lanes of one shard: their intervals (durable), and in memory which places are changing and when lanes last read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bmq.coordinator.lanes.lane_states import LanePlace, LaneStates
from bmq.log.lanes.intervals import Interval, open_interval
from bmq.protocol.lane_records import LaneIntervalKey

UNTAKEN_MAX: Final = 1_000
"""Most remembered reasons. Clients choose the names of lanes, so there may be any number."""


class ShardLanes:
    """`untaken`: why a lane whose group reads a place is not taken. `waits`: why an interval was not ended or its copies not
    made at the last try. `states` changes by replayed records alone.
    """

    def __init__(self) -> None:
        self.states = LaneStates()
        self.untaken: dict[tuple[LanePlace, str], str] = {}
        self.waits: dict[LaneIntervalKey, str] = {}
        self._changing: dict[LanePlace, asyncio.Future[None]] = {}
        self._read_ms: dict[tuple[LanePlace, str], float] = {}

    def open_interval(self, place: LanePlace, lane: str) -> Interval | None:
        return open_interval(self.states.intervals(place), lane)

    def has_been_read(self, place: LanePlace, lane: str, loop_ms: float) -> None:
        """Note that the lane's group has fetched, at `loop_ms` (the event loop's time)."""
        self._read_ms[place, lane] = loop_ms

    def read_ms(self, place: LanePlace, lane: str, loop_ms: float) -> float:
        """When the lane's group last read the place; if that is not known, it counts as read at `loop_ms`, from now on."""
        return self._read_ms.setdefault((place, lane), loop_ms)

    def gone(self, place: LanePlace, lane: str) -> None:
        """Forget when the lane was read: it is no longer taken."""
        self._read_ms.pop((place, lane), None)

    def is_changing(self, place: LanePlace) -> bool:
        return place in self._changing

    async def settled(self, place: LanePlace) -> None:
        """Wait until no interval of the place is being opened or ended."""
        while (change := self._changing.get(place)) is not None:
            await asyncio.shield(change)

    @contextmanager
    def changing(self, place: LanePlace) -> Iterator[None]:
        """While the context is open, `settled` waits for the place. Enter it only for a place that is settled."""
        change = self._changing[place] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._changing[place]
            change.set_result(None)

    def not_taken(self, place: LanePlace, lane: str, reason: str) -> None:
        """Remember for operators why the lane is not taken there."""
        self.untaken.pop((place, lane), None)
        while len(self.untaken) >= UNTAKEN_MAX:
            del self.untaken[next(iter(self.untaken))]
        self.untaken[place, lane] = reason

    def taken(self, place: LanePlace, lane: str) -> None:
        """Forget why the lane was not taken: now it is."""
        self.untaken.pop((place, lane), None)
