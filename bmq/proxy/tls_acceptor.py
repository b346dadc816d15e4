"""Accepts the connections of one TLS listener, and does their handshakes within limits of time and number.

asyncio's own TLS server does not report a connection before its handshake is done, or why a handshake failed. This acceptor knows
each connection from its beginning, and takes the listener's current TLS context for it, so a renewed certificate needs no new
socket. Until a client's first record has come it costs no more than a socket (client_hello); then it waits for its turn
(handshake_turns).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

import structlog

from bmq.proxy.client_hello import TLS_RECORD, ClientHello
from bmq.proxy.handshake_turns import HandshakeTurns
from bmq.proxy.listener_socket import TLS_HANDSHAKE_S, ListenerSocket
from bmq.proxy.pending_connections import PendingConnections

log = structlog.get_logger("bmq.proxy")

ACCEPT_RETRY_S: Final = 1.0
"""Pause after the system had no descriptor or memory for a connection."""
_LEFT_LEAST_S: Final = 0.001


class TlsAcceptor:
    """The acceptor of one listener. Call `bind`, then `start`, and `close` at the end.

    `make_connection`: makes the protocol for a client whose handshake is done. `pending`: the handshakes under way. `refused`:
    called with the address of a client that is closed, and the reason. `turns`: in which handshakes begin; shared with other listeners.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listener_socket: ListenerSocket,
        make_connection: Callable[[], asyncio.BaseProtocol],
        pending: PendingConnections,
        refused: Callable[[str, str], None],
        *,
        handshake_s: float = TLS_HANDSHAKE_S,
        turns: HandshakeTurns | None = None,
    ) -> None:
        self.turns = HandshakeTurns(loop.call_soon) if turns is None else turns
        self._loop = loop
        self._listener_socket = listener_socket
        self._make_connection = make_connection
        self._pending = pending
        self._refused = refused
        self._handshake_s = handshake_s
        self._sockets: list[socket.socket] = []
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        self._handshakes: dict[_Handshake, None] = {}

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Take the address, in all its families. Returns the first one with its real port. Raises OSError."""
        for family, address in await _addresses(self._loop, host, port):
            if self._sockets and not port:  # all families get the port of the first one
                address = (address[0], self._sockets[0].getsockname()[1], *address[2:])
            made = socket.socket(family, socket.SOCK_STREAM)
            self._sockets.append(made)
            try:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                made.setblocking(False)
                made.bind(address)
            except OSError:
                self._close_sockets()
                raise
        name = self._sockets[0].getsockname()
        return str(name[0]), int(name[1])

    def take(self, bound: socket.socket) -> None:
        """Accept connections from a socket that is bound already."""
        bound.setblocking(False)
        self._sockets.append(bound)

    def start(self, backlog: int) -> None:
        """Begin to accept connections. Raises OSError if the port is taken."""
        for one in self._sockets:
            one.listen(backlog)
        for one in self._sockets:
            self._loop.add_reader(one, self._accept, one)

    async def close(self) -> None:
        """Stop accepting, and drop handshakes under way; established connections stay."""
        for one in self._sockets:
            self._loop.remove_reader(one)
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        tasks = [one.task for one in self._handshakes if one.task is not None]
        for handshake in tuple(self._handshakes):
            handshake.drop()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._close_sockets()

    def _close_sockets(self) -> None:
        for one in self._sockets:
            one.close()
        self._sockets.clear()

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection per turn of the event loop: a thousand at once would delay all other clients."""
        try:
            accepted, address = listening.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return  # the client left before it was accepted
        except OSError as error:
            log.warning("accept_failed", listener=self._listener_socket.name, reason=error.strerror)
            self._loop.remove_reader(listening)
            self._retries[listening] = self._loop.call_later(ACCEPT_RETRY_S, self._accept_again, listening)
            return
        accepted.setblocking(False)
        handshake = _Handshake(self, self._loop, accepted, str(address[0]), self._handshake_s)
        self._handshakes[handshake] = None
        # For one too many the oldest is closed, in a turn of its own, so that others' requests come in between.
        self._loop.call_soon(self._count, handshake)

    def _count(self, handshake: _Handshake) -> None:
        if handshake in self._handshakes:
            self._pending.add(handshake.host, handshake)

    def _accept_again(self, listening: socket.socket) -> None:
        del self._retries[listening]
        self._loop.add_reader(listening, self._accept, listening)

    async def shake_hands(self, accepted: socket.socket, host: str, first: bytes, left_s: float) -> None:
        """Do one handshake within `left_s`; if it fails, close the client's socket. `first`: the client's first byte."""
        with contextlib.suppress(OSError):  # the client may have left already
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_plain = self._listener_socket.allows_plaintext and first != TLS_RECORD
        try:
            await self._loop.connect_accepted_socket(
                self._make_connection,
                accepted,
                ssl=None if is_plain else self._listener_socket.context,
                ssl_handshake_timeout=None if is_plain else left_s,
            )
        except ssl.SSLError as error:
            self.refuse(host, self._listener_socket.failure(error.reason, getattr(error, "verify_message", "")))
        except ConnectionAbortedError:
            self.refuse_late(host, is_begun=True)
        except ConnectionError:
            log.debug("handshake_left", client=host)
        except OSError as error:
            self.refuse(host, f"its TLS handshake failed: {error.strerror}")

    def refuse_late(self, host: str, *, is_begun: bool) -> None:
        """Refuse a client whose handshake took too long. `is_begun`: it has begun with TLS."""
        what = (
            "its TLS handshake was not done"
            if is_begun or not self._listener_socket.allows_plaintext
            else "it sent nothing"
        )
        self.refuse(host, f"{what} within {self._handshake_s:g} s")

    def refuse(self, host: str, reason: str) -> None:
        self._refused(host, reason)

    def ended(self, handshake: _Handshake) -> None:
        """Forget a handshake that is done, has failed or was dropped."""
        self.turns.remove(handshake.host, handshake)
        self._pending.remove(handshake)
        self._handshakes.pop(handshake, None)


class _Handshake:
    """One client's handshake. Implements Pending. `task`: None until the client's first record has come, and its turn."""

    def __init__(
        self,
        acceptor: TlsAcceptor,
        loop: asyncio.AbstractEventLoop,
        accepted: socket.socket,
        host: str,
        handshake_s: float,
    ) -> None:
        self.host = host
        self.task: asyncio.Task[None] | None = None
        self._acceptor = acceptor
        self._loop = loop
        self._accepted = accepted
        self._has_begun = False
        self._first = b""
        self._hello = ClientHello(loop, accepted, self._has_come)
        self._ends_s = loop.time() + handshake_s
        self._timer = loop.call_later(handshake_s, self._took_too_long)

    def close(self, reason: str) -> None:
        self._acceptor.refuse(self.host, reason)
        self.drop()

    def drop(self) -> None:
        """Close the socket without a TLS alert."""
        if self.task is not None:
            self.task.cancel()
            return
        self._hello.close()
        self._end()

    def _end(self) -> None:
        """End the handshake before it has a task."""
        self._timer.cancel()
        self._accepted.close()
        self._acceptor.ended(self)

    def _took_too_long(self) -> None:
        self._acceptor.refuse_late(self.host, is_begun=self._hello.is_tls)
        self.drop()

    def _has_come(self, first: bytes) -> None:
        """The client's first record is there, or the client has left (b"")."""
        if not first:
            log.debug("handshake_left", client=self.host)
            self._end()
            return
        self._first = first
        self._acceptor.turns.add(self.host, self)

    def begin(self) -> None:
        """Implements Handshake.begin."""
        self._timer.cancel()
        left_s = max(self._ends_s - self._loop.time(), _LEFT_LEAST_S)
        self.task = self._loop.create_task(self._run(self._first, left_s))
        self.task.add_done_callback(self._done)

    async def _run(self, first: bytes, left_s: float) -> None:
        self._has_begun = True
        await self._acceptor.shake_hands(self._accepted, self.host, first, left_s)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._acceptor.ended(self)
        if not self._has_begun:
            self._accepted.close()  # otherwise the transport closes it
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("handshake_failed", client=self.host, error=repr(error))


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    """The addresses of a host in each family, without repetitions; an empty host is every address of this machine."""
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in found))
