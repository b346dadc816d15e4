"""The cleaning of logs in the simulation: slow, interrupted, and seen by whoever wants to hurt a node in the middle of it."""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from bmq.compaction.cleaning import CleaningHere
from bmq.log.compaction import CleanedGroup, CleaningEnd, CleaningEvent, CleaningInterrupted, CleaningPlan, LogCleaning
from bmq.log.store import SegmentStore
from tests.simulation.outcome import Outcome

Host = TypeVar("Host")
"""Whatever is the process that cleans: a node, a server, an owner."""


@dataclass(slots=True)
class CleaningHabits:
    """Chances per event of a cleaning; `pause_s`: the longest."""

    interrupted_rate: float
    pause_rate: float
    pause_s: float
    is_calm: bool = False

    @classmethod
    def of(cls, dice: random.Random) -> CleaningHabits:
        return cls(dice.choice((0.0, 0.02, 0.1)), dice.choice((0.0, 0.1, 0.4)), dice.choice((0.05, 0.5, 2.0)))


@dataclass(slots=True)
class CleaningWatch(Generic[Host]):
    """`moved` is set with each event of any cleaning; `node`: where the last one was.

    `on_group`: called where a segment is written and about to be swapped in.
    """

    outcome: Outcome
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    node: Host | None = None
    on_group: Callable[[Host], None] | None = None

    def saw(self, node: Host, event: CleaningEvent) -> None:
        self.node = node
        self.moved.set()
        match event:
            case CleanedGroup(dropped_aborts=dropped):
                self.outcome.groups_cleaned += 1
                self.outcome.markers_dropped += len(dropped)
                if self.on_group is not None:
                    self.on_group(node)
            case CleaningEnd():
                self.outcome.cleanings += 1


class WatchedCleaning(Generic[Host]):
    """Implements bmq.log.compaction.LogCleaning around another one."""

    def __init__(
        self, inner: LogCleaning, node: Host, watch: CleaningWatch[Host], habits: CleaningHabits, dice: random.Random
    ) -> None:
        self._inner = inner
        self._node = node
        self._watch = watch
        self._habits = habits
        self._dice = dice

    async def clean(self, plan: CleaningPlan) -> AsyncGenerator[CleaningEvent]:
        """As LogCleaning.clean."""
        habits, dice = self._habits, self._dice
        async with aclosing(self._inner.clean(plan)) as events:
            async for event in events:
                if not habits.is_calm and dice.random() < habits.interrupted_rate:
                    self._watch.outcome.cleanings_interrupted += 1
                    raise CleaningInterrupted("the process that cleans has ended")
                self._watch.saw(self._node, event)
                if not habits.is_calm and dice.random() < habits.pause_rate:
                    await asyncio.sleep(dice.uniform(0.0, habits.pause_s))
                yield event

    def use_share(self, share: float) -> None:
        """As LogCleaning.use_share."""
        self._inner.use_share(share)

    async def close(self) -> None:
        """As LogCleaning.close."""
        await self._inner.close()


def watched_cleaning(
    node: Host,
    store: SegmentStore,
    watch: CleaningWatch[Host],
    habits: CleaningHabits,
    dice: random.Random,
    chunk_bytes: int = 65_536,
) -> LogCleaning:
    """The real cleaning in this process, watched. `store`: its client."""
    inner = CleaningHere(store, lambda: dice.randbytes(16), chunk_bytes=chunk_bytes)
    return WatchedCleaning(inner, node, watch, habits, dice)


class HurtCleaners(Generic[Host]):
    """Now and then whoever cleans dies or hangs, a moment before or after it swaps in what it wrote.

    `hurt` gets it, outside of every process. `rate`: per segment.
    """

    def __init__(self, rate: float, dice: random.Random, hurt: Callable[[Host], None]) -> None:
        self.is_calm = False
        self._rate = rate
        self._dice = dice
        self._hurt = hurt
        self._outside = contextvars.copy_context()

    def __call__(self, host: Host) -> None:
        if self.is_calm or self._dice.random() >= self._rate:
            return
        delay_s = self._dice.choice((0.0, 0.005, 0.05)) * self._dice.random()
        asyncio.get_running_loop().call_later(delay_s, self._do, host, context=self._outside.copy())

    def _do(self, host: Host) -> None:
        if not self.is_calm:
            self._hurt(host)
