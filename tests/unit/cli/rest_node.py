"""A node's REST application that commands ask without a socket."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import httpx

from tests.unit.admin.rest.cluster import RestCluster


class Node:
    """A RestCluster on a loop of its own, asked through httpx without a socket."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.hosts: list[str] = []
        self.logins: list[str | None] = []
        self.deaf: set[str] = set()
        self.cluster = self.run(self._make)

    def run(self, work: Callable[[], Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work(), self._loop).result(30)

    async def _make(self) -> RestCluster:
        cluster = RestCluster()
        await cluster.__aenter__()
        return cluster

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.hosts.append(f"{request.url.host}:{request.url.port}")
        self.logins.append(request.headers.get("authorization"))
        if request.url.host in self.deaf:
            raise httpx.ConnectError("refused", request=request)

        async def ask() -> httpx.Response:
            path = request.url.raw_path.decode()
            headers = {name: value for name, value in request.headers.items() if name != "host"}
            response = await self.cluster.client.request(request.method, path, headers=headers, content=request.content)
            return httpx.Response(response.status_code, headers=response.headers, content=response.content)

        response: httpx.Response = self.run(ask)
        return response

    def close(self) -> None:
        async def leave() -> None:
            await self.cluster.__aexit__()

        self.run(leave)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
