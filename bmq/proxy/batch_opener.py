"""Opens record batches, for reads that need single records or keys. (Plain fetches send batches unopened.)

Large and compressed batches are opened away from the event loop, one at a time, which bounds the memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

OPENED_AT_ONCE_BYTES_MAX: Final = 64 * 1024
"""Uncompressed batches up to this size are opened on the event loop."""
_CODEC: Final = 0x07

T = TypeVar("T")
RunAside = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a function away from the event loop, and returns its result."""


def _nothing() -> None:
    return None


class BatchOpener:
    """Opens batches; a process has one, so that one large batch is open at a time."""

    def __init__(self, run_aside: RunAside = asyncio.to_thread) -> None:
        self._run_aside = run_aside
        self._turn = asyncio.Lock()

    async def open(
        self,
        attributes: int,
        size_bytes: int,
        opened: Callable[[], T],
        known: Callable[[], T | None] = _nothing,
    ) -> T:
        """The result of `opened()`, run where a batch with these attributes and this size should be. Raises what that raises.

        `known()`: called when this call has waited for its turn; a result that another call has found meanwhile, or None.
        """
        if not attributes & _CODEC and size_bytes <= OPENED_AT_ONCE_BYTES_MAX:
            return opened()
        async with self._turn:
            found = known()
            if found is None:
                found = await self._run_aside(opened)
            return found
