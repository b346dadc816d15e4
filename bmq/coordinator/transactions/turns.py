"""Requests for one key are served one after another, in the order in which they came.

A request that waits for the end of a transaction must not be overtaken by a newer one, or the newer one's client would
be fenced by an instance that it has replaced (rule 28). So each turn is handed to the next in line directly.
"""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """Create it inside the event loop. A key is held from a successful `take` until its `give_back`."""

    __slots__ = ("_loop", "_queues")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}  # waiting requests, by held key

    async def take(self, key: str, wait_s: float) -> bool:
        """Wait for earlier requests; False: that takes longer than `wait_s`, and the key is not held."""
        queue = self._queues.get(key)
        if queue is None:
            self._queues[key] = deque()
            return True
        if wait_s <= 0:
            return False
        turn: asyncio.Future[None] = self._loop.create_future()
        queue.append(turn)
        try:
            await asyncio.wait({turn}, timeout=wait_s)
        except asyncio.CancelledError:
            if turn.done():
                self.give_back(key)
            else:
                queue.remove(turn)
            raise
        if not turn.done():
            queue.remove(turn)
        return turn.done()

    def give_back(self, key: str) -> None:
        """Start the next request's turn."""
        queue = self._queues[key]
        if queue:
            queue.popleft().set_result(None)
        else:
            del self._queues[key]
