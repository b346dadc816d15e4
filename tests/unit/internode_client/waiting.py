"""Waiting for what no event tells of, within a bound."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], limit_s: float = 5.0, pause_s: float = 0.0) -> None:
    """Returns once it holds; the loop goes on meanwhile. Raises TimeoutError."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110 (nothing that could set an event knows of the condition)
            await asyncio.sleep(pause_s)
