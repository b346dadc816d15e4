"""Waits for a client's whole first TLS record, before anything of TLS is made for the client.

What TLS needs for a connection costs several times what its socket costs, and a client that stops half-way would get it for
nothing. The system says when as many bytes have come as the record announces (SO_RCVLOWAT), so that a client cannot make
work by sending it byte by byte. All bytes stay in the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

TLS_RECORD: Final = b"\x16"
"""Every handshake begins with it. It would announce a Kafka request of 369 MB, which no listener takes."""
_HEADER_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = 2**14
"""Of a record in clear text (RFC 8446, 5.1)."""


class ClientHello:
    """`ready`: is told the first byte once the record is here, or what has come is no TLS; empty: the client has left."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, ready: Callable[[bytes], None]
    ) -> None:
        self._loop = loop
        self._accepted = accepted
        self._ready = ready
        self._first = b""
        self._await(_HEADER_BYTES)
        loop.add_reader(accepted, self._readable)

    @property
    def is_tls(self) -> bool:
        """Whether what has come so far begins a TLS record."""
        return self._first == TLS_RECORD

    def close(self) -> None:
        """Wait no more; the socket stays open."""
        self._loop.remove_reader(self._accepted)

    def _await(self, size_bytes: int) -> None:
        with contextlib.suppress(OSError):  # some systems have no such option: then the first bytes have to do
            self._accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size_bytes)

    def _readable(self) -> None:
        if not self._first:
            try:
                head = self._accepted.recv(_HEADER_BYTES, socket.MSG_PEEK)
            except BlockingIOError:
                return
            except OSError:
                head = b""
            self._first = head[:1]
            size_bytes = int.from_bytes(head[3:], "big")
            if len(head) == _HEADER_BYTES and self._first == TLS_RECORD and size_bytes <= _RECORD_BYTES_MAX:
                self._await(_HEADER_BYTES + size_bytes)
                return  # called again once so many are here, or the client has left
        self.close()
        self._await(1)
        self._ready(self._first)
