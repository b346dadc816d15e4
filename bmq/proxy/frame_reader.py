"""Where one request ends and the next begins, whatever pieces the bytes come in. Bytes in, frames out, no I/O.

Small requests are received many at a time into one buffer that all connections share, and each is copied once into a
bytearray of its own; a big one is received straight into its own. That grows with what has arrived: a length prefix
alone reserves nothing. A frame is writable and belongs to whoever takes it.
"""

from __future__ import annotations

from typing import Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

_PREFIX_BYTES: Final = 4
_DIRECT_BYTES_MIN: Final = 64 * 1024  # what is left of a frame from here on is worth a receive of its own
_FIRST_BYTES_MAX: Final = 256 * 1024
_GROWTH: Final = 4


class BadFrame(BmqError):
    """A length prefix that no request has. The connection cannot be read any further."""

    code = ErrorCode.INVALID_REQUEST


class FrameReader:
    """One connection's input. `buffer()` then `received(n)`, then `next_frame()` until None, then `keep()`.

    `keep` must be called before the shared buffer is used for anybody else: it moves what is left out of it.
    """

    __slots__ = ("_at", "_data", "_end", "_filled", "_frame", "_frame_bytes", "_frame_bytes_max", "_is_direct", "_shared")

    def __init__(self, shared: memoryview, frame_bytes_max: int) -> None:
        self._shared = shared
        self._frame_bytes_max = frame_bytes_max
        self._data = shared  # unread bytes are _data[_at:_end]
        self._at = 0
        self._end = 0
        self._frame: bytearray | None = None  # a frame being received, _filled of its _frame_bytes are there
        self._frame_bytes = 0
        self._filled = 0
        self._is_direct = False

    @property
    def held_bytes(self) -> int:
        """Memory this connection's unfinished input takes outside the shared buffer."""
        kept = len(self._data) if self._data is not self._shared else 0
        return kept + (len(self._frame) if self._frame is not None else 0)

    @property
    def is_in_frame(self) -> bool:
        """Whether a frame has begun and is not whole yet."""
        return self._frame is not None

    @property
    def has_unread(self) -> bool:
        """Whether bytes were kept that `next_frame` has not looked at."""
        return self._at < self._end

    def buffer(self) -> memoryview:
        """Where to receive next."""
        frame = self._frame
        if frame is not None and self._at == self._end:
            left = self._frame_bytes - self._filled
            if left >= _DIRECT_BYTES_MIN:
                if self._filled == len(frame):
                    frame = self._grow(frame)
                self._is_direct = True
                return memoryview(frame)[self._filled :]
        self._is_direct = False
        return self._shared

    def received(self, count: int) -> None:
        """`count` bytes have been put into the last `buffer()`."""
        if self._is_direct:
            self._is_direct = False
            self._filled += count
            return
        if self._at < self._end:
            # Bytes kept earlier come first. Rare: a transport that delivers although it was paused.
            kept = bytearray(self._data[self._at : self._end])
            kept += self._shared[:count]
            self._data = memoryview(kept)
            self._at, self._end = 0, len(kept)
            return
        self._data = self._shared
        self._at, self._end = 0, count

    def next_frame(self) -> bytearray | None:
        """The next whole frame without its prefix; None when more bytes are needed. Raises BadFrame."""
        frame = self._frame
        if frame is not None:
            return self._continue(frame)
        at = self._at
        left = self._end - at
        if left < _PREFIX_BYTES:
            return None
        start = at + _PREFIX_BYTES
        size = int.from_bytes(self._data[at:start], "big", signed=True)
        if not 0 <= size <= self._frame_bytes_max:
            raise BadFrame(f"a request of {size} bytes, {self._frame_bytes_max} are allowed")
        stop = start + size
        if stop <= self._end:
            self._at = stop
            return bytearray(self._data[start:stop])
        there = left - _PREFIX_BYTES
        self._frame_bytes = size
        self._filled = there
        begun = bytearray(min(size, max(_FIRST_BYTES_MAX, there)))
        begun[:there] = self._data[start : self._end]
        self._frame = begun
        self._at = self._end
        return None

    def keep(self) -> None:
        """Move unread bytes out of the shared buffer."""
        if self._at == self._end:
            self._data = self._shared
            self._at = self._end = 0
        elif self._data is self._shared:
            self._data = memoryview(bytearray(self._shared[self._at : self._end]))
            self._at, self._end = 0, len(self._data)

    def _continue(self, frame: bytearray) -> bytearray | None:
        size = self._frame_bytes
        while self._filled < size:
            there = min(self._end - self._at, size - self._filled)
            if there == 0:
                return None
            if self._filled + there > len(frame):
                frame = self._grow(frame)
                there = min(there, len(frame) - self._filled)
            frame[self._filled : self._filled + there] = self._data[self._at : self._at + there]
            self._filled += there
            self._at += there
        self._frame = None
        return frame

    def _grow(self, frame: bytearray) -> bytearray:
        # A new one instead of a resize: the transport may still hold a view of the old one.
        grown = bytearray(min(self._frame_bytes, _GROWTH * max(len(frame), _PREFIX_BYTES)))
        grown[: self._filled] = memoryview(frame)[: self._filled]
        self._frame = grown
        return grown
