"""A future for the one answer of a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def awaited_answer() -> tuple[asyncio.Future[T], Callable[[T], None]]:
    """The future, and what sets its result. An answer that comes after whoever waits was cancelled is dropped."""
    answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def done(result: T) -> None:
        if not answer.done():
            answer.set_result(result)

    return answer, done
