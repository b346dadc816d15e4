"""Waits for the end of a history: its writers and its chaos, while everything else goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any


async def until_done(ending: Sequence[asyncio.Future[Any]], others: Sequence[asyncio.Future[Any]]) -> None:
    """Return when all of `ending` are done. What any of them, or of `others`, fails with is raised at once."""
    everything = (*ending, *others)
    while not all(one.done() for one in ending):
        done, _ = await asyncio.wait([one for one in everything if not one.done()], return_when=asyncio.FIRST_COMPLETED)
        for one in done:
            one.result()
