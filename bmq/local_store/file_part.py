"""Parts of local files that go from the page cache to a socket without passing through this process (sendfile)."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from asyncio import AbstractEventLoop
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final

from bmq.protocol.wire import Buffer

SEND_BYTES_MAX: Final = 1024 * 1024
"""Sent per call; the page cache is checked for this much first."""
OPEN_FILES_MAX: Final = 128
UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP})
"""errno for "this kernel or file system cannot do that"; the plain way is taken then."""
_LOAD_BYTES: Final = 256 * 1024
_PAGE_BYTES: Final = mmap.PAGESIZE
_SYS_CACHESTAT: Final = 451  # on every architecture; Linux 6.5 and newer

_libc: Final = ctypes.CDLL(None, use_errno=True)
_Range: Final = ctypes.c_uint64 * 2  # offset, length
_Stat: Final = ctypes.c_uint64 * 5  # pages: cached, dirty, written back, evicted, evicted lately
_range: Final = _Range()
_stat: Final = _Stat()
_range_at: Final = ctypes.byref(_range)
_stat_at: Final = ctypes.byref(_stat)


def is_cached(descriptor: int, position: int, length_bytes: int) -> bool:
    """Whether all these bytes are in the page cache; False if the kernel cannot tell.

    Only for the event loop's thread.
    """
    _range[0] = position
    _range[1] = length_bytes
    if _libc.syscall(_SYS_CACHESTAT, descriptor, _range_at, _stat_at, 0) != 0:
        return False
    pages = (position + length_bytes - 1) // _PAGE_BYTES - position // _PAGE_BYTES + 1
    return bool(_stat[0] >= pages)


def read_cached(descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
    """Fill the buffer as far as the page cache reaches: how many bytes, 0 also if the kernel cannot tell. Raises OSError."""
    try:
        return os.preadv(descriptor, [buffer], position, os.RWF_NOWAIT)
    except BlockingIOError:
        return 0
    except OSError as error:
        if error.errno in UNSUPPORTED:
            return 0
        raise


class OpenFile:
    """A file open for reading; closed when the last reference goes away."""

    __slots__ = ("descriptor",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.descriptor = -1
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)


class OpenFiles:
    """Recently sent files, by id: drops the least recently used one, and those that are deleted."""

    def __init__(self) -> None:
        self._files: OrderedDict[int, OpenFile] = OrderedDict()

    def __len__(self) -> int:
        return len(self._files)

    def get(self, file_id: int) -> OpenFile | None:
        file = self._files.get(file_id)
        if file is not None:
            self._files.move_to_end(file_id)
        return file

    def put(self, file_id: int, file: OpenFile) -> None:
        self._files[file_id] = file
        if len(self._files) > OPEN_FILES_MAX:
            self._files.popitem(last=False)

    def drop(self, file_id: int) -> None:
        """The file is deleted, and would use disk space while it is open."""
        self._files.pop(file_id, None)

    def clear(self) -> None:
        """Drop all: a directory is deleted."""
        self._files.clear()


class LocalFilePart:
    """Implements bmq.protocol.parts.FilePart: bytes of a file that never change again, from `position` on."""

    __slots__ = ("_file", "_length_bytes", "_loop", "_position", "_threads")

    def __init__(
        self, file: OpenFile, position: int, length_bytes: int, loop: AbstractEventLoop, threads: Executor
    ) -> None:
        self._file = file
        self._position = position
        self._length_bytes = length_bytes
        self._loop = loop
        self._threads = threads

    def __len__(self) -> int:
        return self._length_bytes

    def from_position(self, position: int) -> LocalFilePart:
        """The part from `position` on."""
        return self.between(position, self._length_bytes)

    def between(self, begin: int, end: int) -> LocalFilePart:
        """As FilePart.between."""
        return LocalFilePart(self._file, self._position + begin, end - begin, self._loop, self._threads)

    def fill(self, buffer: memoryview, position: int) -> int:
        """As FilePart.fill."""
        return os.preadv(
            self._file.descriptor, [buffer[: max(0, self._length_bytes - position)]], self._position + position
        )

    def peek(self, position: int, length_bytes: int) -> bytes:
        """As FilePart.peek."""
        length_bytes = min(length_bytes, self._length_bytes - position)
        return os.pread(self._file.descriptor, length_bytes, self._position + position)

    def read_cached(self, position: int, length_bytes: int) -> bytearray:
        """As FilePart.read_cached."""
        buffer = bytearray(min(length_bytes, self._length_bytes - position))
        del buffer[read_cached(self._file.descriptor, buffer, self._position + position) :]
        return buffer

    def read(self, position: int, length_bytes: int, done: Callable[[Buffer | OSError], None]) -> None:
        """As FilePart.read."""

        def read() -> Buffer | OSError:
            try:
                return self.peek(position, length_bytes)
            except OSError as error:
                return error

        self._loop.run_in_executor(self._threads, read).add_done_callback(
            lambda reading: done(OSError("the store is closed") if reading.cancelled() else reading.result())
        )

    def is_all_cached(self) -> bool:
        """Whether the whole part is in the page cache."""
        return is_cached(self._file.descriptor, self._position, self._length_bytes)

    def is_cached(self, position: int) -> bool:
        """As FilePart.is_cached."""
        return is_cached(self._file.descriptor, self._position + position, self._next_bytes(position))

    def load(self, position: int, done: Callable[[OSError | None], None]) -> None:
        """As FilePart.load."""

        def read() -> OSError | None:
            at, end = self._position + position, self._position + position + self._next_bytes(position)
            try:
                while at < end and (found := len(os.pread(self._file.descriptor, min(_LOAD_BYTES, end - at), at))):
                    at += found
            except OSError as error:
                return error
            return None

        self._loop.run_in_executor(self._threads, read).add_done_callback(
            lambda reading: None if reading.cancelled() else done(reading.result())
        )

    def send(self, descriptor: int, position: int) -> int:
        """As FilePart.send."""
        return os.sendfile(descriptor, self._file.descriptor, self._position + position, self._next_bytes(position))

    def _next_bytes(self, position: int) -> int:
        return min(SEND_BYTES_MAX, self._length_bytes - position)
