"""Store calls that their caller gives up, and that the store carries out when the test says so."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from random import Random
from typing import Any

from bmq.log.store import StorageUnavailable, StoreError


class GivenUp:
    """The next `count` calls of `store.<method>` with `part` in their first path are given up: they raise StorageUnavailable.

    What they ask for happens in `carry_out`.
    """

    def __init__(self, store: object, method: str, part: str = "", *, count: int = 1) -> None:
        self.count = count
        self._method: Callable[..., Coroutine[Any, Any, object]] = getattr(store, method)
        self._part = part
        self._held: list[Callable[[], Coroutine[Any, Any, object]]] = []
        setattr(store, method, self._call)

    @property
    def held_count(self) -> int:
        return len(self._held)

    async def carry_out(self) -> None:
        """All of them, in order; nobody hears how it went."""
        held, self._held = self._held, []
        for call in held:
            with contextlib.suppress(StoreError):
                await call()

    async def _call(self, path: str, *arguments: object, **options: object) -> object:
        if not self.count or self._part not in path:
            return await self._method(path, *arguments, **options)
        self.count -= 1
        self._held.append(partial(self._method, path, *arguments, **options))
        raise StorageUnavailable(f"{path}: given up")


class LateCalls:
    """Of the calls of these methods some are given up at once and carried out up to `late_s_max` later, by chance.

    `rate`: may be changed on the way. `given_up`: how many.
    """

    def __init__(
        self, store: object, methods: Iterable[str], random: Random, *, rate: float, late_s_max: float = 6.0
    ) -> None:
        self.rate = rate
        self.given_up = 0
        self._random = random
        self._late_s_max = late_s_max
        self._tasks: set[asyncio.Task[None]] = set()
        for method in methods:
            setattr(store, method, partial(self._call, getattr(store, method)))

    async def _call(
        self, method: Callable[..., Coroutine[Any, Any, object]], path: str, *arguments: object, **options: object
    ) -> object:
        if self._random.random() >= self.rate:
            return await method(path, *arguments, **options)
        self.given_up += 1
        task = asyncio.get_running_loop().create_task(self._later(partial(method, path, *arguments, **options)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        raise StorageUnavailable(f"{path}: given up")

    async def _later(self, call: Callable[[], Coroutine[Any, Any, object]]) -> None:
        await asyncio.sleep(self._random.uniform(0.0, self._late_s_max))
        with contextlib.suppress(StoreError):
            await call()
