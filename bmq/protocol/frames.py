"""Cuts a byte stream into request frames (int32 length, then as many bytes). No I/O.

All connections share one receive buffer: `get_buffer`, the read and `buffer_updated` follow each other without
interruption. Small frames are copied out of it; an incomplete frame gets a buffer of its own, into which the rest is
received directly, so that a big produce is never copied. Frames are writable and belong to the caller of `feed`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from bmq.protocol.errors import MalformedMessage

FRAME_BYTES_MAX_BETWEEN_NODES: Final = 128 * 1024 * 1024
"""Longest request that nodes pass on to each other, and longest answer."""
FORWARDED_BYTES_MAX: Final = FRAME_BYTES_MAX_BETWEEN_NODES - 1024 * 1024
"""Longest request of a client, so that it still fits between nodes with all that is added: names, principal, address."""
_PREFIX: Final = Struct(">i")
_PREFIX_BYTES: Final = 4
_CLIENT_HELLOS: Final = range(0x160300, 0x160305)
"""The first three bytes of a TLS handshake: its record type, and a version from SSL 3.0 to TLS 1.3."""


class ReceiveBuffer:
    """The memory all connections of a server receive into."""

    __slots__ = ("view",)

    def __init__(self, size_bytes: int) -> None:
        self.view = memoryview(bytearray(size_bytes))


class FrameSplitter:
    """One connection's position in its stream."""

    __slots__ = ("_at_first_max", "_filled", "_frame", "_frame_bytes_max", "_needed", "_prefix", "_shared")

    def __init__(self, shared: ReceiveBuffer, frame_bytes_max: int, at_first_max: int) -> None:
        self._shared = shared.view
        self._frame_bytes_max = frame_bytes_max
        self._at_first_max = at_first_max
        self._prefix = b""  # the first bytes, fewer than 4, of the next frame's length
        self._frame: bytearray | None = None  # an incomplete frame: `_filled` of `_needed` bytes have arrived
        self._filled = 0
        self._needed = 0

    def limit(self, frame_bytes_max: int, at_first_max: int) -> None:
        """Other limits, for the frames that begin from now on."""
        self._frame_bytes_max, self._at_first_max = frame_bytes_max, at_first_max

    @property
    def held_bytes(self) -> int:
        """Memory held for an incomplete frame."""
        return 0 if self._frame is None else len(self._frame)

    @property
    def unfinished(self) -> tuple[int, int]:
        """Announced size and API key of an incomplete frame; the key is -1 while it is not known, or there is no such
        frame."""
        if self._frame is None:
            return 0, -1
        return self._needed, int.from_bytes(self._frame[:2], "big") if self._filled >= 2 else -1

    def get_buffer(self) -> memoryview:
        """The buffer for the next bytes. Never empty."""
        frame = self._frame
        if frame is None:
            return self._shared
        if self._filled == len(frame):
            frame = self._frame = self._larger(frame)  # only here, so that a paused connection does not grow
        return memoryview(frame)[self._filled :]

    def _larger(self, frame: bytearray) -> bytearray:
        """Twice as long, or as long as is needed. In its place as far as there is room behind it: the pieces that growing
        copies leave behind would be as much memory again."""
        size = min(self._needed, 2 * len(frame))
        try:
            while (missing := size - len(frame)) > 0:
                frame += self._shared[:missing]  # anything: it is received into before it is read
        except BufferError:  # somebody still has a view of it
            frame = bytearray(frame)
            frame.extend(bytes(size - len(frame)))
        return frame

    def feed(self, count: int) -> list[bytearray]:
        """`count` bytes were received into `get_buffer()`: the frames they complete. Raises MalformedMessage."""
        if self._frame is None:
            return self._cut(count)
        self._filled += count
        if self._filled == self._needed:
            frame, self._frame = self._frame, None
            return [frame]
        return []

    def _cut(self, count: int) -> list[bytearray]:
        shared = self._shared
        if not self._prefix and count >= _PREFIX_BYTES:
            length = _PREFIX.unpack_from(shared)[0]
            if length == count - _PREFIX_BYTES and length <= self._frame_bytes_max:
                return [bytearray(shared[_PREFIX_BYTES:count])]  # one whole frame, as mostly where none is large
        view = shared[:count]
        if self._prefix:
            missing = _PREFIX_BYTES - len(self._prefix)
            self._prefix += bytes(view[:missing])
            if len(self._prefix) < _PREFIX_BYTES:
                return []
            length, position = int.from_bytes(self._prefix, "big", signed=True), missing
            self._prefix = b""
        elif count < _PREFIX_BYTES:
            self._prefix = bytes(view)
            return []
        else:
            length, position = int.from_bytes(view[:_PREFIX_BYTES], "big", signed=True), _PREFIX_BYTES
        frames: list[bytearray] = []
        while True:
            if not 0 <= length <= self._frame_bytes_max:
                if length >> 8 in _CLIENT_HELLOS:
                    raise MalformedMessage("it speaks TLS, and this listener does not")
                raise MalformedMessage(f"a frame announces {length} bytes, 0 to {self._frame_bytes_max} are allowed")
            end = position + length
            if end > count:
                self._begin(view[position:], length)
                return frames
            frames.append(bytearray(view[position:end]))
            position = end + _PREFIX_BYTES
            if position > count:
                self._prefix = bytes(view[end:])
                return frames
            length = int.from_bytes(view[end:position], "big", signed=True)

    def _begin(self, start: memoryview, length: int) -> None:
        self._filled = len(start)
        self._needed = length
        self._frame = bytearray(min(length, max(self._at_first_max, 2 * self._filled)))
        self._frame[: self._filled] = start
