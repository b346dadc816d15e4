"""A ZooKeeper server of one session at a time: connects, logins by SASL, pings and closes; other requests are refused.

It enforces logins: without one it answers nothing but SASL. `sessions`: the id of each connection's session. `acceptors`:
each login. A thread of its own serves each connection.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from tests.fakes.gssapi import FakeAcceptor

WAIT_S: Final = 20.0
AUTH_FAILED, DEMANDS_LOGIN, UNIMPLEMENTED = -115, -124, -6
SASL, CLOSE, PING, SYNC = 102, -11, 11, 9
PASSWORD: Final = bytes(range(16))


class FakeZooKeeperServer:
    """`accept`: makes the server's side of each login; it raises ValueError to refuse a message."""

    def __init__(self, accept: Callable[[], FakeAcceptor] = FakeAcceptor, session_ms: int = 4000) -> None:
        self.sessions: list[int] = []
        self.acceptors: list[FakeAcceptor] = []
        self.closed: list[int] = []
        self._accept = accept
        self._session_ms = session_ms
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        """By a name, as principals want it."""
        return f"localhost:{self._listener.getsockname()[1]}"

    def hang_up(self) -> None:
        """On all that are connected; they may come again."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(WAIT_S)
        self.hang_up()
        for thread in self._threads:
            thread.join(WAIT_S)
        for connection in (self._listener, *self._connections):
            connection.close()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError, EOFError):
            request = _request(connection)
            (asked,) = struct.unpack_from(">q", request, 16)
            session = asked or 0x1000 + len(set(self.sessions))
            self.sessions.append(session)
            _send(connection, struct.pack(">iiqi16s?", 0, self._session_ms, session, 16, PASSWORD, False))
            acceptor = self._accept()
            while self._answer(connection, session, acceptor):
                pass
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    def _answer(self, connection: socket.socket, session: int, acceptor: FakeAcceptor) -> bool:
        request = _request(connection)
        xid, kind = struct.unpack_from(">ii", request)
        if kind == SASL:
            if not acceptor.heard:
                self.acceptors.append(acceptor)
            try:
                message = acceptor.answer(request[12:])
            except ValueError:
                _reply(connection, xid, AUTH_FAILED)
                return False
            length = -1 if acceptor.is_content else len(message)
            _reply(connection, xid, 0, struct.pack(">i", length) + message)
        elif kind != PING and not acceptor.is_content:
            _reply(connection, xid, DEMANDS_LOGIN)
            return False
        elif kind == CLOSE:
            self.closed.append(session)
            _reply(connection, xid, 0)
            return False
        else:
            _reply(
                connection, xid, 0 if kind in (PING, SYNC) else UNIMPLEMENTED, b"\0\0\0\x01/" if kind == SYNC else b""
            )
        return True


def _request(connection: socket.socket) -> bytes:
    (length,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, length)


def _read(connection: socket.socket, count: int) -> bytes:
    read = b""
    while len(read) < count:
        more = connection.recv(count - len(read))
        if not more:
            raise EOFError
        read += more
    return read


def _reply(connection: socket.socket, xid: int, error: int, body: bytes = b"") -> None:
    _send(connection, struct.pack(">iqi", xid, 0, error) + body)


def _send(connection: socket.socket, body: bytes) -> None:
    connection.sendall(struct.pack(">i", len(body)) + body)
