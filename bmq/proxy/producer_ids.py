"""Hands out producer ids one by one from blocks that the controller has made durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class ProducerIds:
    """Hands out ids. Callers that find the block used up share one request for the next block."""

    def __init__(self, allocate: Callable[[], Awaitable[range]]) -> None:
        self._allocate = allocate
        self._left = iter(range(0))
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """A producer id that was never given out before. Raises KafkaError."""
        producer_id = next(self._left, None)
        if producer_id is None:
            async with self._lock:
                producer_id = next(self._left, None)
                if producer_id is None:
                    self._left = iter(await self._allocate())
                    producer_id = next(self._left)
        return producer_id
