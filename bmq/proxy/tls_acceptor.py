"""Accepts the connections of one TLS listener, and makes their handshakes within limits of time and number.

asyncio's own TLS server tells nobody about a connection before its handshake is done, or why one failed. This one knows
each from its first moment, and takes the listener's current context for it: a renewed certificate needs no new socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

import structlog

from bmq.proxy.entrance import TLS_HANDSHAKE_S, Entrance
from bmq.proxy.pending_connections import PendingConnections

log = structlog.get_logger("bmq.proxy")

TLS_RECORD: Final = b"\x16"
"""Every handshake begins with it. It would announce a Kafka request of 369 MB, which no listener takes."""
ACCEPT_RETRY_S: Final = 1.0
"""After the system had no descriptor or memory for a connection."""


class TlsAcceptor:
    """`bind`, then `start`, then `close`. `make_connection`: the protocol of a client whose handshake is done. `pending`:
    handshakes under way. `refused`: is told the address of a client and why it is closed.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        entrance: Entrance,
        make_connection: Callable[[], asyncio.BaseProtocol],
        pending: PendingConnections,
        refused: Callable[[str, str], None],
        *,
        handshake_s: float = TLS_HANDSHAKE_S,
    ) -> None:
        self._loop = loop
        self._entrance = entrance
        self._make_connection = make_connection
        self._pending = pending
        self._refused = refused
        self._handshake_s = handshake_s
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._handshakes: dict[_Handshake, None] = {}

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Take the address, in all its families; the first with its real port. Raises OSError."""
        for family, address in await _addresses(self._loop, host, port):
            if self._sockets and not port:  # the families share the port that the first one got
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
        """Accept from a socket that has its address already."""
        bound.setblocking(False)
        self._sockets.append(bound)

    def start(self, backlog: int) -> None:
        """Begin to accept. Raises OSError when the port is taken."""
        for one in self._sockets:
            one.listen(backlog)
        self._accepting = [self._loop.create_task(self._accept(one)) for one in self._sockets]

    async def close(self) -> None:
        """Accept nothing more and drop handshakes under way; connections that are made stay."""
        tasks = [*self._accepting, *(one.task for one in self._handshakes)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._accepting.clear()
        self._close_sockets()

    def _close_sockets(self) -> None:
        for one in self._sockets:
            one.close()
        self._sockets.clear()

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                accepted, address = await self._loop.sock_accept(listening)
            except ConnectionAbortedError:
                continue  # it left before it was taken out of the queue
            except OSError as error:
                log.warning("accept_failed", listener=self._entrance.name, reason=error.strerror)
                await asyncio.sleep(ACCEPT_RETRY_S)
                continue
            handshake = _Handshake(self, accepted, str(address[0]))
            self._handshakes[handshake] = None
            self._pending.add(handshake.host, handshake)
            await asyncio.sleep(0)  # one in each turn: a thousand at once would hold up all other clients

    async def shake_hands(self, accepted: socket.socket, host: str) -> None:
        """Make one handshake; a client whose handshake fails is closed."""
        with contextlib.suppress(OSError):  # it may have left already
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        is_plain = self._entrance.allows_plaintext and not await self._begins_tls(accepted, host)
        if accepted.fileno() < 0:
            return
        try:
            await self._loop.connect_accepted_socket(
                self._make_connection,
                accepted,
                ssl=None if is_plain else self._entrance.context,
                ssl_handshake_timeout=None if is_plain else self._handshake_s,
            )
        except ssl.SSLError as error:
            self.refuse(host, self._entrance.failure(error.reason, getattr(error, "verify_message", "")))
        except ConnectionAbortedError:
            self.refuse(host, f"its TLS handshake was not done within {self._handshake_s:g} s")
        except ConnectionError:
            log.debug("handshake_left", client=host)
        except OSError as error:
            self.refuse(host, f"its TLS handshake failed: {error.strerror}")

    async def _begins_tls(self, accepted: socket.socket, host: str) -> bool:
        """Whether the first byte is TLS's; it stays unread. The socket is closed if none comes."""
        try:
            async with asyncio.timeout(self._handshake_s):
                await _readable(self._loop, accepted)
            first = accepted.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            accepted.close()
            self.refuse(host, f"it sent nothing within {self._handshake_s:g} s")
            return False
        except OSError:
            first = b""
        except BaseException:
            accepted.close()
            raise
        if not first:
            accepted.close()
            log.debug("handshake_left", client=host)
        return first == TLS_RECORD

    def refuse(self, host: str, reason: str) -> None:
        self._refused(host, reason)

    def ended(self, handshake: _Handshake) -> None:
        """It is done, or failed, or was dropped."""
        self._pending.remove(handshake)
        self._handshakes.pop(handshake, None)


class _Handshake:
    """One client's; implements Pending."""

    def __init__(self, acceptor: TlsAcceptor, accepted: socket.socket, host: str) -> None:
        self.host = host
        self._acceptor = acceptor
        self._accepted = accepted
        self._has_begun = False
        self.task = asyncio.get_running_loop().create_task(self._run())
        self.task.add_done_callback(self._done)

    def close(self, reason: str) -> None:
        self._acceptor.refuse(self.host, reason)
        self.task.cancel()

    async def _run(self) -> None:
        self._has_begun = True
        await self._acceptor.shake_hands(self._accepted, self.host)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._acceptor.ended(self)
        if not self._has_begun:
            self._accepted.close()  # else its transport does
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("handshake_failed", client=self.host, error=repr(error))


async def _readable(loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
    """Wait until it has bytes or has ended."""
    ready = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(accepted, tell)
    try:
        await ready
    finally:
        loop.remove_reader(accepted)


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    """The addresses of a host in each family, without repetitions; an empty host is every address of this machine."""
    found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((int(family), address) for family, _, _, _, address in found))
