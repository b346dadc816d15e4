"""The REST pages, built after the start: their imports take as long as starting everything else.

A server is ready without them. Until they are built, health is answered here and other requests wait. They are imported in a
thread, so that Kafka clients are served meanwhile.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_HEALTH: Final = "/v1/health"


class RestPages:
    """An ASGI application that exists at once. `build` makes the whole application; it runs in a thread, once. `is_ready`:
    the health, as in the built pages.
    """

    def __init__(self, build: Callable[[], Application], is_ready: Callable[[], bool]) -> None:
        self._build = build
        self._is_ready = is_ready
        self._building: asyncio.Task[Application] | None = None

    def begin(self) -> asyncio.Task[Application]:
        """Start building the pages, unless that has begun."""
        if self._building is None:
            self._building = asyncio.create_task(self._built())
        return self._building

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_there = self._building is not None and self._building.done()
        if not is_there and scope["path"] == _HEALTH and scope["method"] == "GET":
            await self._answer_health(send)
            return
        pages = await asyncio.shield(self.begin())
        await pages(scope, receive, send)

    async def close(self) -> None:
        """Wait for the thread: an interpreter that ends during an import prints a traceback."""
        if self._building is not None:
            await asyncio.wait({self._building})

    async def _built(self) -> Application:
        pages = await asyncio.to_thread(self._build)
        gc.freeze()  # they live as long as the process
        return pages

    async def _answer_health(self, send: Send) -> None:
        is_ready = self._is_ready()
        body = b'{"ready":true}' if is_ready else b'{"ready":false}'
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200 if is_ready else 503, "headers": headers})
        await send({"type": "http.response.body", "body": body})
