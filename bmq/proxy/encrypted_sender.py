"""Sends a connection's answers through a TLS transport, piece by piece as the client reads them.

A TLS transport encrypts at once all that it is given, and holds the cipher text until the client reads it, uncounted by any
budget. So answers wait here in clear text: records in memory stay counted by their response, and parts in files stay in their
files. A part in a file is read in pieces, without waiting for a disk on the event loop; a piece counts in the budget until the
transport has it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from functools import partial
from typing import Final, cast

from bmq.protocol.parts import MEMORY, FilePart, Part
from bmq.protocol.wire import Buffer
from bmq.proxy.fetch_budget import ResponseBudget
from bmq.proxy.file_sender import Sending

PIECE_BYTES_MAX: Final = 256 * 1024
"""Bytes given to the transport at once. It holds at most twice this and 64 KiB: the rest of a piece, and the next piece."""
RECORD_BYTES_MAX: Final = 16 * 1024
"""Longest TLS record. Pieces of files are this long while the budget has no room."""
TURN_BYTES_MAX: Final = 1024 * 1024
"""Bytes encrypted in one turn of the event loop, which takes about a millisecond; then other connections get their turn."""


class EncryptedSender:
    """Sends answers through one TLS transport. Call `begin`, then `send`.

    `transport`: its protocol's `resume_writing` has to call `resume`. `budget`: that of answers in memory.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, owner: Sending, budget: ResponseBudget
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._owner = owner
        self._budget = budget
        self._parts: deque[Part] = deque()
        self._position = 0  # bytes of the first part that are sent
        self._is_full = False  # the transport holds cipher text that the client has not read
        self._is_waiting = False  # whether it waits for a file, or for the next turn
        self._is_writing = False
        self._is_closed = False
        self._counted_bytes = 0  # bytes counted in the budget for the piece that the transport holds
        self.unsent_bytes = 0

    def begin(self) -> None:
        """Make the transport report when it holds nothing. It may do so at once: it can still hold session tickets."""
        self._transport.set_write_buffer_limits(high=1, low=0)

    def send(self, parts: Sequence[Part]) -> None:
        """Queue these parts behind all earlier ones."""
        if self._is_closed:
            return
        size_bytes = sum(map(len, parts))
        if (
            size_bytes <= PIECE_BYTES_MAX
            and not self._parts
            and not self._is_full
            and all(isinstance(part, MEMORY) for part in parts)
        ):
            self._write(cast(Sequence[Buffer], parts), size_bytes)
            return
        self.unsent_bytes += size_bytes
        self._parts.extend(parts)
        if not self._is_full and not self._is_waiting:
            self._go_on()

    def resume(self) -> None:
        """The client has read all that the transport held: send on."""
        if self._is_writing:
            return  # the end of the write looks at what it holds
        self._is_full = False
        self._uncount()
        self._owner.sending_moved()
        if not self._is_waiting:
            self._continue()

    def close(self) -> None:
        """Drop unsent parts. A piece that is being read counts until it arrives, and is then dropped."""
        self._is_closed = True
        self._parts.clear()
        self.unsent_bytes = 0
        self._uncount()

    def _continue(self) -> None:
        """Send on after a wait, outside of `send`."""
        self._is_waiting = False
        if self._is_closed or self._is_full or not self._parts:
            return
        self._go_on()
        if not self._parts and not self._is_closed:
            self._owner.all_sent()

    def _go_on(self) -> None:
        """Give pieces to the transport until it is full, a file has to be waited for, or the turn is used up."""
        left_bytes = TURN_BYTES_MAX
        while self._parts and not self._is_full:
            if left_bytes <= 0:
                self._is_waiting = True
                self._loop.call_soon(self._continue)
                return
            part = self._parts[0]
            if isinstance(part, MEMORY):
                left_bytes -= self._write_memory()
                continue
            size_bytes = self._piece_bytes(part)
            try:
                data = part.read_cached(self._position, size_bytes)
            except OSError as error:
                self._fail(error)
                return
            if not data:
                self._is_waiting = True
                self._budget.reserve(size_bytes)
                part.read(self._position, size_bytes, partial(self._read, size_bytes))
                return
            self._budget.reserve(len(data))
            self._counted_bytes += len(data)
            left_bytes -= len(data)
            self._write_file(part, data)

    def _piece_bytes(self, part: FilePart) -> int:
        room_bytes = max(self._budget.room_bytes, RECORD_BYTES_MAX)
        return min(len(part) - self._position, PIECE_BYTES_MAX, room_bytes)

    def _read(self, reserved_bytes: int, found: Buffer | OSError) -> None:
        """Take a piece of a file that had to be waited for; the loop calls this."""
        if self._is_closed:
            self._budget.release(reserved_bytes)
            return
        self._counted_bytes += reserved_bytes
        if not isinstance(found, OSError) and not found:
            found = OSError("a file ends before what was to be sent of it")
        if isinstance(found, OSError):
            self._is_waiting = False
            self._fail(found)
            return
        part = self._parts[0]
        assert not isinstance(part, MEMORY)
        self._write_file(part, found)
        self._owner.sending_moved()
        self._continue()

    def _write_memory(self) -> int:
        """Give parts in memory, or a piece of one, to the transport. Returns how many bytes."""
        pieces: list[Buffer] = []
        left_bytes = PIECE_BYTES_MAX
        while self._parts and left_bytes > 0:
            part = self._parts[0]
            if not isinstance(part, MEMORY):
                break
            size_bytes = len(part) - self._position
            if self._position or size_bytes > left_bytes:
                size_bytes = min(size_bytes, left_bytes)
                part = memoryview(part)[self._position : self._position + size_bytes]
            pieces.append(part)
            left_bytes -= size_bytes
            self._move(size_bytes)
        size_bytes = PIECE_BYTES_MAX - left_bytes
        self._write(pieces, size_bytes)
        return size_bytes

    def _write(self, pieces: Sequence[Buffer], size_bytes: int) -> None:
        self._is_writing = True
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        elif size_bytes < len(pieces) * RECORD_BYTES_MAX:
            self._transport.write(
                b"".join(pieces)
            )  # without joining, each part would be a TLS record, which costs more than a copy
        else:
            self._transport.writelines(pieces)
        self._is_writing = False
        self._is_full = self._transport.get_write_buffer_size() > 0

    def _write_file(self, part: FilePart, data: Buffer) -> None:
        self._move(len(data))
        self._write((data,), len(data))
        if not self._is_full:
            self._uncount()

    def _move(self, size_bytes: int) -> None:
        self.unsent_bytes -= size_bytes
        self._position += size_bytes
        if self._position == len(self._parts[0]):
            self._parts.popleft()
            self._position = 0

    def _uncount(self) -> None:
        counted_bytes, self._counted_bytes = self._counted_bytes, 0
        if counted_bytes:
            self._budget.release(counted_bytes)

    def _fail(self, error: OSError) -> None:
        self.close()
        self._owner.sending_failed(error)
