"""A long computation in slices: the event loop serves everybody else between them."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


async def in_turns(work: Generator[None, None, T]) -> T:
    """The result of `work`, which yields whenever it has taken long enough for one turn of the event loop."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
