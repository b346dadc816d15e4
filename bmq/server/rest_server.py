"""Runs the REST application on this process's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bmq.admin.rest.authentication import Application
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.listener_socket import ListenerSocket
from bmq.proxy.pending_connections import PendingConnections
from bmq.proxy.refusal_log import RefusalLog
from bmq.proxy.tls_acceptor import TlsAcceptor
from bmq.server.rest_connection import RestConnection, RestRoom

BACKLOG: Final = 512
HEADER_BYTES_MAX: Final = 64 * 1024
"""The longest headers of a request together; longer ones are answered with 400."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing: this process handles signals itself."""
        yield


class RestServer:
    """Call `bind`, `start` and `stop` in this order. Binding is separate so that an occupied port is known early.

    `listener_socket`: its TLS, and how certificates are mapped; without a context it serves plain HTTP. `limits`: bounds of
    connections whose clients are not known yet.
    """

    def __init__(self, listener_socket: ListenerSocket | None = None, limits: ProxyLimits | None = None) -> None:
        self._listener_socket = listener_socket or ListenerSocket()
        self._loop = asyncio.get_running_loop()
        bounds = limits or ProxyLimits()
        pending = PendingConnections(bounds.pending_connections_max, bounds.pending_connections_per_host_max)
        self.refused = RefusalLog(self._loop.time).note
        self._room = RestRoom(pending, self.refused, lambda subject: self._listener_socket.principal_of(subject))
        self._socket: socket.socket | None = None
        self._server: _Server | None = None
        self._acceptor: TlsAcceptor | None = None
        self._task: asyncio.Task[None] | None = None

    def bind(self, host: str, port: int) -> tuple[str, int]:
        """Listen. Returns (host, port) with the real port. Raises OSError."""
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

    async def start(self, application: Application) -> None:
        """Answer requests. Raises OSError."""
        assert self._socket is not None
        config = uvicorn.Config(
            application,
            http=self._connection,  # type: ignore[arg-type]  # it is called as a class is
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            interface="asgi3",
            proxy_headers=False,  # who sends a request is who is connected, not what a header says
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=HEADER_BYTES_MAX,
            backlog=BACKLOG,
        )
        self._server = server = _Server(config)
        is_tls = self._listener_socket.is_tls
        self._task = asyncio.create_task(server.serve(sockets=[] if is_tls else [self._socket]))
        await server.is_up.wait()
        if is_tls:
            # uvicorn's own TLS takes no other certificate later, and does not bound handshakes.
            self._acceptor = TlsAcceptor(
                self._loop, self._listener_socket, self._encrypted_connection, self._room.pending, self.refused
            )
            self._acceptor.take(self._socket)
            self._acceptor.start(BACKLOG)

    async def stop(self) -> None:
        """Accept no more connections. Requests under way have one second to end."""
        if self._acceptor is not None:
            await self._acceptor.close()
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await self._task
        if self._socket is not None:
            self._socket.close()

    def _encrypted_connection(self) -> asyncio.BaseProtocol:
        assert self._server is not None
        return self._connection(self._server.config, self._server.server_state, {}, self._loop)

    def _connection(
        self, config: uvicorn.Config, server_state: Any, app_state: dict[str, Any], _loop: Any = None
    ) -> RestConnection:
        """Replaces uvicorn's class of connections."""
        return RestConnection(H11Protocol(config, server_state, app_state, _loop), self._room, self._loop)
