"""Sends a connection's answers on the socket itself, from the first answer with parts in files on; the transport only reads then.

The transport first sends what it still has (`begin`). From then on all answers are sent here, so answers never mix.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from bmq.protocol.parts import MEMORY, FilePart, Part
from bmq.protocol.wire import Buffer

GATHERED_MAX: Final = 64  # most bytes per system call
SEND_BUFFER_BYTES: Final = 100 * 1024
"""Kafka's default (socket.send.buffer.bytes). Fewer bytes in flight save a third of the processor on loopback."""
TURN_BYTES_MAX: Final = 8 * 1024 * 1024
"""Bytes after which a client that takes everything at once yields to other clients."""


class Sending(Protocol):
    """The owner of the sender, as it is called back."""

    def sending_moved(self) -> None:
        """The client has taken some bytes."""

    def all_sent(self) -> None:
        """All parts are sent; not called while `send` runs."""

    def sending_failed(self, error: OSError) -> None:
        """The client or the disk failed in the middle of an answer."""


class FileSender:
    """Sends parts on one socket.

    `descriptor`: that of the connected socket; it is duplicated, because an event loop does not watch one that a transport uses.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, descriptor: int, owner: Sending) -> None:
        self._loop = loop
        self._owner = owner
        self._socket = socket.socket(fileno=socket.dup(descriptor))
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self._parts: deque[Part] = deque()
        self._position = 0  # bytes of the first part that are sent
        self._is_waiting = True  # whether it waits: for `begin`, the socket, a disk or the next turn
        self._is_watching = False
        self._is_closed = False
        self.has_begun = False
        self.unsent_bytes = 0

    def begin(self) -> None:
        """Start to send: the transport has nothing left to send."""
        self.has_begun = True
        self._resume()

    def send(self, parts: Sequence[Part]) -> None:
        """Queue these parts behind all earlier ones."""
        self.unsent_bytes += sum(map(len, parts))
        self._parts.extend(parts)
        if not self._is_waiting:
            self._go_on()

    def close(self) -> None:
        """Drop unsent parts and close the socket's duplicate."""
        self._is_closed = self._is_waiting = True
        if self._is_watching:
            self._loop.remove_writer(self._socket)
        self._parts.clear()
        self.unsent_bytes = 0
        self._socket.close()

    def _resume(self) -> None:
        if self._is_closed:
            return
        self._is_waiting = False
        if self._is_watching:
            self._is_watching = False
            self._loop.remove_writer(self._socket)
        self._go_on()
        if not self._parts and not self._is_closed:
            self._owner.all_sent()

    def _go_on(self) -> None:
        unsent_bytes = self.unsent_bytes
        try:
            while self._parts:
                if unsent_bytes - self.unsent_bytes >= TURN_BYTES_MAX:
                    self._is_waiting = True
                    self._loop.call_soon(self._resume)
                    break
                part = self._parts[0]
                if isinstance(part, MEMORY):
                    self._send_memory()
                elif part.is_cached(self._position):
                    self._send_file(part)
                else:
                    self._is_waiting = True
                    part.load(self._position, self._loaded)
                    break
        except BlockingIOError:
            self._is_waiting = self._is_watching = True
            self._loop.add_writer(self._socket, self._resume)
        except OSError as error:
            self._fail(error)
            return
        if self.unsent_bytes < unsent_bytes:
            self._owner.sending_moved()

    def _loaded(self, error: OSError | None) -> None:
        if self._is_closed:
            return
        if error is not None:
            self._fail(error)
            return
        # Send at once: a page cache that is short of room may have dropped the bytes at the next look, again and again.
        part = self._parts[0]
        assert not isinstance(part, MEMORY)
        try:
            self._send_file(part)
        except BlockingIOError:
            pass
        except OSError as failure:
            self._fail(failure)
            return
        else:
            self._owner.sending_moved()
        self._resume()

    def _send_memory(self) -> None:
        buffers: list[Buffer] = []
        for part in self._parts:
            if not isinstance(part, MEMORY) or len(buffers) == GATHERED_MAX:
                break
            buffers.append(part)
        if self._position:
            buffers[0] = memoryview(buffers[0])[self._position :]
        # A file's bytes follow the head at once, so avoid a small packet for the head.
        flags = socket.MSG_MORE if len(buffers) < len(self._parts) else 0
        sent_bytes = self._socket.sendmsg(buffers, (), flags)
        self.unsent_bytes -= sent_bytes
        for buffer in buffers:
            size = len(buffer)
            if sent_bytes < size:
                break
            sent_bytes -= size
            self._parts.popleft()
            self._position = 0
        self._position += sent_bytes

    def _send_file(self, part: FilePart) -> None:
        sent_bytes = part.send(self._socket.fileno(), self._position)
        if not sent_bytes:
            raise OSError("a file ends before what was to be sent of it")
        self.unsent_bytes -= sent_bytes
        self._position += sent_bytes
        if self._position == len(part):
            self._parts.popleft()
            self._position = 0

    def _fail(self, error: OSError) -> None:
        self._is_waiting = True
        self._parts.clear()
        self._owner.sending_failed(error)
