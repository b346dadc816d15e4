"""Trying again while a call fails with an error that may pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
E = TypeVar("E", bound=Exception)


async def until_done(
    attempt: Callable[[], Awaitable[T]], error_type: type[E], pause_s: Callable[[E, float], float | None]
) -> T:
    """The result of `attempt`, which is called again after each error of this type that may pass.

    `pause_s(error, took_s)`: seconds until the next call, after one that took so long; None: the error is raised. It bounds
    the tries, and may raise another error instead.
    """
    loop = asyncio.get_running_loop()
    while True:
        began_s = loop.time()
        try:
            return await attempt()
        except error_type as error:
            seconds = pause_s(error, loop.time() - began_s)
            if seconds is None:
                raise
        await asyncio.sleep(seconds)
