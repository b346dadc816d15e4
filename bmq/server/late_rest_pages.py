"""The REST pages, built for the first request that needs them: their imports take half as long as a whole start.

A server is ready without them, and many a server is never asked for one. Until they are built, health and the console's files
are answered here, so that a browser draws the console meanwhile, and other requests wait. They are imported in a thread, so that
Kafka clients are served.
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, Final

from bmq.admin.health import HealthReason
from bmq.admin.rest.health_pages import HEALTH_PATH, LIVE_PATH, described
from bmq.admin.rest.principals import STRANGER
from bmq.console.answer import console_answer
from bmq.console.assets import PAGE, Assets

_CONSOLE: Final = "/console/"

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class RestPages:
    """An ASGI application that exists at once. `build` makes the whole application; it runs in a thread, once, when the first
    request comes that needs it. `is_ready`: the health, as in the built pages. `why`: the reasons that it names to anyone; none
    where the pages ask for a right. `assets`: the console's.
    """

    def __init__(
        self,
        build: Callable[[], Application],
        is_ready: Callable[[], bool],
        why: Callable[[], Iterable[HealthReason]] = tuple,
        *,
        assets: Assets | None = None,
    ) -> None:
        self._build = build
        self._is_ready = is_ready
        self._why = why
        self._assets = assets or Assets()
        self._building: asyncio.Task[Application] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_there = self._building is not None and self._building.done()
        if not is_there and scope["method"] == "GET" and scope["path"] in (HEALTH_PATH, LIVE_PATH):
            if scope["path"] == LIVE_PATH:
                await _answer(send, 200, {"live": True})
            else:
                await self._answer_health(send, is_stranger=bool(scope.get(STRANGER)))
            return
        if self._building is None:
            self._building = asyncio.create_task(self._built())
        if not is_there and await self._answer_file(scope, send):
            return
        pages = await asyncio.shield(self._building)
        await pages(scope, receive, send)

    async def _answer_file(self, scope: Scope, send: Send) -> bool:
        """Whether it is a file of the console, which is sent then."""
        path = scope["path"]
        if scope["method"] not in ("GET", "HEAD") or not (path == "/" or path.startswith(_CONSOLE)):
            return False
        name = PAGE if path == "/" else path.removeprefix(_CONSOLE)
        asset = await asyncio.to_thread(self._assets.named, name)
        if asset is None:
            return False
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}
        found = console_answer(asset, is_head=scope["method"] == "HEAD", headers=headers)
        await _send(send, found.status, found.headers, found.body)
        return True

    async def close(self) -> None:
        """Wait for the thread: an interpreter that ends during an import prints a traceback."""
        if self._building is not None:
            await asyncio.wait({self._building})

    async def _built(self) -> Application:
        pages = await asyncio.to_thread(self._build)
        gc.freeze()  # they live as long as the process
        return pages

    async def _answer_health(self, send: Send, *, is_stranger: bool) -> None:
        is_ready = self._is_ready()
        health: dict[str, Any] = {"ready": is_ready}
        why = [] if is_stranger else [described(reason) for reason in self._why()]
        if why:
            health["why"] = why
        await _answer(send, 200 if is_ready else 503, health)


async def _answer(send: Send, status: int, content: Mapping[str, Any]) -> None:
    body = json.dumps(content, separators=(",", ":")).encode()
    await _send(send, status, {"content-type": "application/json", "content-length": str(len(body))}, body)


async def _send(send: Send, status: int, headers: Mapping[str, str], body: bytes) -> None:
    sent = [(key.encode(), value.encode()) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})
