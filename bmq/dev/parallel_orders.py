"""Awaits several calls to daemons in parallel."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable


async def run_parallel(orders: Iterable[Coroutine[None, None, None]]) -> None:
    """Await all `orders` at once. The first failure cancels the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for order in orders:
                group.create_task(order)
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
