"""One connection of the REST address: bounded until its client is known, and named by the client's certificate.

uvicorn reads and writes. It does not bound silent connections, and it does not show the client's certificate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from bmq.admin.rest.authentication import Application, Receive, Scope, Send
from bmq.admin.rest.principals import PEER
from bmq.proxy.listener_socket import Subject, subject_of
from bmq.proxy.pending_connections import PendingConnections
from bmq.security.mapping_rules import NoRule

CONNECTIONS_MAX: Final = 1_000
"""Open connections; more are closed at once."""
KNOWN_S_MAX: Final = 15.0
"""From the connection's beginning until its client is known: the headers of a request, with a login where one is demanded."""


class HttpProtocol(Protocol):
    """uvicorn's protocol; `app` answers its requests."""

    app: Any

    def connection_made(self, transport: asyncio.Transport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class RestRoom:
    """Shared by all connections of the address. `refused` is called with a client's address and the reason why it is closed."""

    def __init__(
        self,
        pending: PendingConnections,
        refused: Callable[[str, str], None],
        principal_of: Callable[[Subject], str],
        *,
        connections_max: int = CONNECTIONS_MAX,
        known_s_max: float = KNOWN_S_MAX,
    ) -> None:
        self.pending = pending
        self.refused = refused
        self.principal_of = principal_of
        self.connections_max = connections_max
        self.known_s_max = known_s_max
        self.open: set[RestConnection] = set()


class RestConnection(asyncio.Protocol):
    """Implements bmq.admin.rest.authentication.Peer and bmq.proxy.pending_connections.Pending."""

    def __init__(self, http: HttpProtocol, room: RestRoom, loop: asyncio.AbstractEventLoop) -> None:
        self._http = http
        self._room = room
        self._loop = loop
        self._app: Application = http.app
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_admitted = False
        self._host = "unknown"
        self.principal: str | None = None
        http.app = self._answer

    # --- Peer and Pending

    def known(self) -> None:
        """The client is known: stop counting the connection as pending."""
        self._room.pending.remove(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self, reason: str) -> None:
        """Close the connection, and log why."""
        self._room.refused(self._host, reason)
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = made = cast("asyncio.Transport", transport)
        name = transport.get_extra_info("peername")
        if isinstance(name, tuple):
            self._host = str(name[0])
        if (why := self._why_not(made)) is not None:
            self.close(why)
            return
        self._is_admitted = True
        self._room.open.add(self)
        self._timer = self._loop.call_later(self._room.known_s_max, self._took_too_long)
        self._room.pending.add(self._host, self)
        self._http.connection_made(made)

    def data_received(self, data: bytes) -> None:
        if self._is_admitted:
            self._http.data_received(data)

    def eof_received(self) -> bool | None:
        return self._http.eof_received() if self._is_admitted else None

    def pause_writing(self) -> None:
        self._http.pause_writing()

    def resume_writing(self) -> None:
        self._http.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.known()
        self._room.open.discard(self)
        if self._is_admitted:
            self._http.connection_lost(exc)

    # --- own

    def _why_not(self, transport: asyncio.Transport) -> str | None:
        """Why the connection has to be closed; None if it may stay."""
        if len(self._room.open) >= self._room.connections_max:
            return f"there are {len(self._room.open)} connections to the REST address already"
        subject = subject_of(transport.get_extra_info("peercert"))
        if subject is not None:
            try:
                self.principal = self._room.principal_of(subject)
            except NoRule as error:
                return f"its certificate gives it no name: {error}"
        return None

    def _took_too_long(self) -> None:
        self.close(
            f"it sent no whole request, or did not log in, within {self._room.known_s_max:g} s at the REST address"
        )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app({**scope, PEER: self}, receive, send)
