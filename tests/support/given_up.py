"""Store calls that their caller gives up, and that the store carries out when the test says so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from functools import partial
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
