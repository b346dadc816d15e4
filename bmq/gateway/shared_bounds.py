"""What all users and streams of one gateway share: memory, and places for what is costly."""

from __future__ import annotations

import asyncio

from bmq.gateway.byte_budget import ByteBudget
from bmq.gateway.settings import GatewaySettings


class SharedBounds:
    """`windows`: of the tails. `deliveries`, `publishing`: room for what is being written.

    `catch_up`: readers of old records. `groups`: memberships of groups.
    """

    def __init__(self, settings: GatewaySettings) -> None:
        self.settings = settings
        self.windows = ByteBudget(settings.windows_bytes_max)
        self.deliveries = WaitingBudget(settings.deliveries_bytes_max)
        self.publishing = WaitingBudget(settings.publish_bytes_max)
        self.catch_up = asyncio.Semaphore(settings.catch_up_readers_max)
        self.groups = Places(settings.groups_max)


class Places:
    """So many at the same time, and nobody waits for one."""

    def __init__(self, count_max: int) -> None:
        self.count_max = count_max
        self.count = 0

    def take(self) -> bool:
        """Whether there was a place."""
        if self.count >= self.count_max:
            return False
        self.count += 1
        return True

    def give_back(self) -> None:
        self.count -= 1


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
