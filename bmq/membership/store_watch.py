"""Looks whether this node reaches the store, for its reports to the controller.

Each second the node asks for one file's status, and sees whether its partitions' appends end. A node that did not reach the
store is not sure that it does before it has written a small file, which it removes. So does one without appends while
another node does not reach the store: the controller wants to know who can write.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Final

import structlog

from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import AwaitingSegment, Blocked, Mending
from bmq.log.root import ROOT_FILE
from bmq.log.store import SegmentStore
from bmq.membership.store_reach import StoreReach
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import StoreState

PROBE_INTERVAL_S: Final = 1.0
PROBE_DIRECTORY: Final = "probes"
_PROBE: Final = b"This file shows that a node can write. It may be deleted.\n"
_STUCK: Final = (AwaitingSegment, Blocked, Mending)

_log = structlog.get_logger("bmq.membership")


class StoreWatch:
    """`run` until cancelled. `holder`: names this process in the store. `changed()`: the state is another one."""

    def __init__(
        self,
        store: SegmentStore,
        holder: str,
        manager: PartitionManager,
        silence_max_s: float,
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._holder = holder
        self._manager = manager
        self._silence_max_s = silence_max_s
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._reach = StoreReach(silence_max_s, self._loop.time())
        self._numbers = itertools.count()
        self._appends = 0
        self._is_writing_wanted = False
        self.state = StoreState.UNKNOWN

    @property
    def is_away(self) -> bool:
        """Whether this node does not reach the store."""
        return self.state is StoreState.AWAY

    def want_writing(self, is_wanted: bool) -> None:
        """Whether the controller wants to know who can write."""
        self._is_writing_wanted = is_wanted

    async def run(self) -> None:
        """Look for ever; not at all if the silence has no bound."""
        while self._silence_max_s > 0:
            began_s = self._loop.time()
            await self._look()
            await asyncio.sleep(max(0.0, began_s + PROBE_INTERVAL_S - self._loop.time()))

    async def _look(self) -> None:
        self._look_at_partitions()
        try:
            async with asyncio.timeout(self._silence_max_s):
                await self._store.status(ROOT_FILE)
                self._reach.answered(self._loop.time())
                state = self._reach.state(self._loop.time())
                if state is StoreState.AWAY or (self._is_writing_wanted and state is StoreState.ANSWERS):
                    await self._write()
        except (BmqError, TimeoutError, OSError) as error:
            _log.debug("store_not_reached", reason=f"{type(error).__name__}: {error}")
        self._take(self._reach.state(self._loop.time()))

    def _look_at_partitions(self) -> None:
        now_s, appends = self._loop.time(), self._manager.counts.appends
        if appends != self._appends:
            self._appends = appends
            self._reach.wrote(now_s)
        self._reach.waits(now_s, is_stuck=any(isinstance(one.state, _STUCK) for one in self._manager.owned()))

    async def _write(self) -> None:
        """Each file has a name of its own: a deletion that is carried out late must not meet another one (rule 21)."""
        path = f"{PROBE_DIRECTORY}/{self._holder}.{next(self._numbers)}"
        await self._store.make_directories(PROBE_DIRECTORY)
        await self._store.write_file(path, _PROBE, holder=self._holder)
        self._reach.wrote(self._loop.time())
        await self._store.delete(path)

    def _take(self, state: StoreState) -> None:
        before, self.state = self.state, state
        if state is before:
            return
        if state is StoreState.AWAY:
            _log.error("store_away", seconds=self._silence_max_s)
        elif before is StoreState.AWAY:
            _log.info("store_back")
        self._changed()
