"""Parts of an answer: buffers in memory, and parts of files that the kernel sends from its page cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bmq.protocol.wire import Buffer


class FilePart(Protocol):
    """Bytes of a file, which stays open while this is referenced. Positions count from the part's beginning."""

    def __len__(self) -> int: ...

    def peek(self, position: int, length_bytes: int) -> bytes:
        """A copy of these bytes, fewer at the part's end. Raises OSError."""

    def read_cached(self, position: int, length_bytes: int) -> Buffer:
        """A copy of these bytes as far as they are in memory, perhaps none; never waits for a disk. Raises OSError."""

    def read(self, position: int, length_bytes: int, done: Callable[[Buffer | OSError], None]) -> None:
        """Copy these bytes in a thread; then `done` is called on the event loop. Fewer: the file is shorter."""

    def from_position(self, position: int) -> FilePart:
        """The part from `position` on."""

    def between(self, begin: int, end: int) -> FilePart:
        """The part of it at [begin, end)."""

    def fill(self, buffer: memoryview, position: int) -> int:
        """Copy the bytes from `position` on into the buffer: how many. May wait for a disk: for threads. Raises OSError."""

    def is_cached(self, position: int) -> bool:
        """Whether the bytes `send` would send next are in memory, so that it will not wait for a disk."""

    def load(self, position: int, done: Callable[[OSError | None], None]) -> None:
        """Load those bytes into memory, in a thread; then `done` is called on the event loop."""

    def send(self, descriptor: int, position: int) -> int:
        """Send from `position` on to a socket that does not block: how many bytes it took. Raises BlockingIOError, OSError.

        0: the file is shorter than it should be.
        """


Part = Buffer | FilePart
MEMORY = (bytes, bytearray, memoryview)
"""The types of parts in memory."""
