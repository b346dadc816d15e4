"""Loads shards taken over from other owners before a client asks for them: their logs may hold unfinished work.

The end of a transaction is such work: its client already has its answer, and consumers that wait for the markers do not
know which shard has to write them. So are records of a share group whose lock runs out, or whose dead letter is not
written yet, while the group has no member. Only a few are loaded at a time, so that shards and partitions that clients
ask for do not queue behind all those of a dead node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Protocol

import structlog

from bmq.aio.backoff import Backoff
from bmq.coordinator.runtime.shard import Shard
from bmq.protocol.errors import KafkaError

_log = structlog.get_logger("bmq.coordinator")


class Loads(Protocol):
    """ShardDirectory implements this; it logs why a shard cannot be loaded."""

    @property
    def is_closed(self) -> bool: ...
    def is_ready(self, number: int) -> bool: ...
    async def load(self, number: int, *, is_awaited: bool) -> Shard: ...


class OwnShards(Protocol):
    """bmq.coordinator.runtime.directory.Shards has these."""

    def owned(self) -> Sequence[int]: ...
    def inherited(self) -> Sequence[int]: ...


class InheritedShards:
    """Loads the inherited shards, in their order, and then those that were lost here while their partitions stay ours.

    Create it inside the event loop. `random`: None: pauses have no jitter.
    """

    def __init__(
        self,
        directory: Loads,
        shards: OwnShards,
        random: Random | None,
        *,
        loads_max: int,
        retry_min_ms: int,
        retry_max_ms: int,
    ) -> None:
        self._directory = directory
        self._shards = shards
        self._lost: set[int] = set()
        self._random = random
        self._retry_min_ms = retry_min_ms
        self._retry_max_ms = retry_max_ms
        self._slots = asyncio.Semaphore(loads_max)
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._is_expected = False

    def changed(self) -> None:
        """Ownership may have changed, or a shard was lost: load missing shards soon, until they are loaded."""
        if not self._is_expected and not self._directory.is_closed:
            self._is_expected = True
            self._loop.call_soon(self._load_missing)

    def lost(self, number: int) -> None:
        """A shard was lost; its partition may still be ours. Where we are its first owner nobody inherits it."""
        self._lost.add(number)
        self.changed()

    def resigned(self, number: int) -> None:
        """The shard's partition has another owner now."""
        self._lost.discard(number)

    def _wanted(self) -> Sequence[int]:
        inherited = self._shards.inherited()
        lost = self._lost.intersection(self._shards.owned()).difference(inherited)
        return [*inherited, *sorted(lost)]

    def _load_missing(self) -> None:
        self._is_expected = False
        if self._directory.is_closed:
            return
        for number in self._wanted():
            if number not in self._tasks and not self._directory.is_ready(number):
                task = self._tasks[number] = self._loop.create_task(self._load(number))
                task.add_done_callback(partial(self._ended, number))

    async def _load(self, number: int) -> None:
        backoff = Backoff(self._random, first_s=self._retry_min_ms / 1000, max_s=self._retry_max_ms / 1000)
        while self._is_missing(number):
            async with self._slots:
                has_failed = self._is_missing(number) and not await self._try(number)
            if has_failed:
                await backoff.pause()

    def _is_missing(self, number: int) -> bool:
        return number in self._wanted() and not self._directory.is_ready(number) and not self._directory.is_closed

    async def _try(self, number: int) -> bool:
        """Returns whether it was loaded."""
        try:
            await self._directory.load(number, is_awaited=False)
        except KafkaError:  # the directory has logged why
            return False
        return True

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        del self._tasks[number]
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            _log.error("shard_not_loaded_early", shard=number, exc_info=error)
        else:
            self.changed()  # it may have been lost again since

    def close(self) -> None:
        """Cancel all loads."""
        for task in self._tasks.values():
            task.cancel()
