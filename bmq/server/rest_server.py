"""Runs the REST application on this process's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from bmq.server.rest_pages import RestPages


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the process's own business, not the REST server's."""
        yield


class RestServer:
    """`bind`, then `start`, then `stop`. Binding is separate so that an occupied port is known before anything starts."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    def bind(self, host: str, port: int) -> tuple[str, int]:
        """Listen; the address with the real port. Raises OSError."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host, port))
        except OSError:
            sock.close()
            raise
        self._socket = sock
        return host, int(sock.getsockname()[1])

    async def start(self, pages: RestPages) -> None:
        assert self._socket is not None
        config = uvicorn.Config(
            pages, log_config=None, access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=1
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        await self._server.is_up.wait()

    async def stop(self) -> None:
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
        if self._socket is not None:
            self._socket.close()
