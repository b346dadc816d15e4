"""What all users and streams of one gateway share: memory, and places for what is costly."""

from __future__ import annotations

import asyncio

from bmq.gateway.byte_budget import ByteBudget
from bmq.gateway.settings import GatewaySettings


class SharedBounds:
    """`windows`: of the tails. `deliveries`, `publishing`: room for what is being written. `catch_up`: readers of old records."""

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.windows = ByteBudget(settings.windows_bytes_max)
        self.deliveries = WaitingBudget(settings.deliveries_bytes_max)
        self.publishing = WaitingBudget(settings.publish_bytes_max)
        self.catch_up = asyncio.Semaphore(settings.catch_up_readers_max)


class WaitingBudget:
    """A budget of bytes whose users wait for room, in order."""

    def __init__(self, bytes_max: int) -> None:
        self.budget = ByteBudget(bytes_max)
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, count_bytes: int) -> None:
        """Returns once so many bytes have room; more than all of it has room when nothing else is held."""
        async with self._turn:
            while not self.budget.has_room(count_bytes):
                self._freed.clear()
                await self._freed.wait()
            self.budget.take(count_bytes)

    def give_back(self, count_bytes: int) -> None:
        self.budget.give_back(count_bytes)
        self._freed.set()
