"""Waits for a client's whole first TLS record before TLS state is allocated for the client.

TLS state costs several times as much memory as a socket, and a client that stops half-way would get it for nothing. The operating
system reports when the announced bytes of the record have come (SO_RCVLOWAT), so a client that sends byte by byte causes no work.
All bytes stay in the socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final

TLS_RECORD: Final = b"\x16"
"""First byte of every TLS handshake. As a Kafka request it would announce 369 MB, which no listener accepts."""
_HEADER_BYTES: Final = 5
_RECORD_BYTES_MAX: Final = 2**14
"""Longest record in clear text (RFC 8446, section 5.1)."""


class ClientHello:
    """Watches one socket. `ready` gets the first byte once the record is whole or is not TLS; b"" if the client left."""

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
        """Whether the bytes so far begin a TLS record."""
        return self._first == TLS_RECORD

    def close(self) -> None:
        """Stop waiting; the socket stays open."""
        self._loop.remove_reader(self._accepted)
        self._ready = _nothing  # it refers to its client's handshake, which has this object: both are freed at once

    def _await(self, size_bytes: int) -> None:
        with contextlib.suppress(OSError):  # without this option the first bytes decide
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
                return  # called again once this many bytes have come, or the client has left
        ready = self._ready
        self.close()
        self._await(1)
        ready(self._first)


def _nothing(first: bytes) -> None:
    """Replaces `ready` once nothing is waited for."""
