"""Waiting, in one event loop, for what no event tells of. The clock of patience ends what never comes, also where the loop's stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from testing.patience import Patience


async def until(is_so: Callable[[], object], limit_s: float = 10.0) -> None:
    """Returns once it holds; the loop goes on meanwhile. Raises AssertionError."""
    patience = Patience(limit_s)
    while not is_so():
        if patience.is_over():
            raise AssertionError(f"not within {patience.limit_s:g} s")
        await asyncio.sleep(0)
    patience.note()
