"""Requests that stay on the way: the client gives them up and goes on elsewhere, and they arrive all the same, later."""

from __future__ import annotations

import asyncio
from typing import Any

from bmq.protocol.apis import ApiKey
from tests.simulation.clients import Address, Client
from tests.simulation.connection import Connection, Disconnected

LATE_S = (0.02, 4.0)


class LateRequests:
    """Of one client. `rate`: how many of its requests are late. `where`: whom they reach."""

    def __init__(self, client: Client, where: Address) -> None:
        self.rate = 0.0
        self.count = 0
        self._client = client
        self._where = where
        self._tasks: set[asyncio.Task[None]] = set()

    def delays(self, api_key: ApiKey, version: int, message: Any) -> bool:
        """Whether this request is late; then it is on its way, and the client hears nothing of it."""
        if not self.rate or self._client.rng.random() >= self.rate:
            return False
        self.send(api_key, version, message)
        return True

    def send(self, api_key: ApiKey, version: int, message: Any) -> None:
        self.count += 1
        task = asyncio.get_running_loop().create_task(self._send(api_key, version, message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, api_key: ApiKey, version: int, message: Any) -> None:
        await asyncio.sleep(self._client.rng.uniform(*LATE_S))
        address = self._where()
        if address is None:
            return
        try:
            connection = await Connection.open(*address, self._client.name, self._client.patience_s)
            await connection.requests(api_key, version, [message])
            connection.close()
        except Disconnected:
            return
