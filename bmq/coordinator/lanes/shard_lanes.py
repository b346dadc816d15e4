"""The lanes of one shard: their intervals in the log, and in memory the partitions that change and the times of their reads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bmq.coordinator.lanes.lane_states import LanePlace, LaneStates
from bmq.log.lanes.intervals import Interval, open_interval

UNTAKEN_MAX: Final = 1_000
"""Reasons that are remembered for lanes that are not taken: clients choose the names."""


class ShardLanes:
    """`untaken`: why a lane whose group reads a place is not taken. `states` changes by replayed records alone."""

    def __init__(self) -> None:
        self.states = LaneStates()
        self.untaken: dict[tuple[LanePlace, str], str] = {}
        self._changing: dict[LanePlace, asyncio.Future[None]] = {}
        self._read_ms: dict[tuple[LanePlace, str], float] = {}

    def open_interval(self, place: LanePlace, lane: str) -> Interval | None:
        return open_interval(self.states.intervals(place), lane)

    def has_been_read(self, place: LanePlace, lane: str, loop_ms: float) -> None:
        """The group of a lane that is taken has fetched."""
        self._read_ms[place, lane] = loop_ms

    def read_ms(self, place: LanePlace, lane: str, loop_ms: float) -> float:
        """When the lane's group was last known to be there; `loop_ms`, if it is not known."""
        return self._read_ms.setdefault((place, lane), loop_ms)

    def gone(self, place: LanePlace, lane: str) -> None:
        """The lane is not taken any more."""
        self._read_ms.pop((place, lane), None)

    def is_changing(self, place: LanePlace) -> bool:
        return place in self._changing

    async def settled(self, place: LanePlace) -> None:
        """Return when no interval of the place is being opened or ended."""
        while (change := self._changing.get(place)) is not None:
            await asyncio.shield(change)

    @contextmanager
    def changing(self, place: LanePlace) -> Iterator[None]:
        """Questions about the place wait meanwhile. Only where none is changed: see `settled`."""
        change = self._changing[place] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._changing[place]
            change.set_result(None)

    def not_taken(self, place: LanePlace, lane: str, reason: str) -> None:
        """Remember the reason, for operators."""
        self.untaken.pop((place, lane), None)
        while len(self.untaken) >= UNTAKEN_MAX:
            del self.untaken[next(iter(self.untaken))]
        self.untaken[place, lane] = reason

    def taken(self, place: LanePlace, lane: str) -> None:
        """The lane is taken from now on."""
        self.untaken.pop((place, lane), None)
