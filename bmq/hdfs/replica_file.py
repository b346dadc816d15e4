"""A finalized replica in the files of a DataNode on this machine: its bytes, and one checksum for each chunk of them.

The file of checksums begins with a version, the type of checksum and the bytes under one (BlockMetadataHeader).
"""

from __future__ import annotations

import errno
import os
from struct import Struct
from typing import Final, Self

from bmq.hdfs.checksums import CHECKSUM_BYTES, CRC_OF_TYPE, wrong_chunk
from bmq.hdfs.datanode_rpc import ReplicaFiles
from bmq.hdfs.read_packets import CHUNK_BYTES_MAX, ReplicaCorrupt, ReplicaMalformed, ReplicaShort

READ_AHEAD_BYTES: Final = 4 * 1024 * 1024  # as a DataNode does it (dfs.datanode.readahead.bytes)

_HEADER: Final = Struct(">hbi")
_VERSION: Final = 1
# No page cache to look at alone: an old kernel, or a file system that does not tell.
_CANNOT_TELL: Final = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.EINVAL})


class ReplicaFile:
    """Made by `open`. Both files stay open until `close`. Other threads may read, but not after `close`."""

    __slots__ = ("_checksums", "_chunk_bytes", "_crc", "_data", "_length_bytes")

    def __init__(self, data: int, checksums: int) -> None:
        """Take over the file descriptors. Raises ReplicaMalformed, ReplicaCorrupt, OSError."""
        self._data = data
        self._checksums = checksums
        try:
            header = os.pread(checksums, _HEADER.size, 0)
            if len(header) < _HEADER.size:
                raise ReplicaMalformed("its file of checksums has no header")
            version, checksum_type, self._chunk_bytes = _HEADER.unpack(header)
            if version != _VERSION or not 0 < self._chunk_bytes <= CHUNK_BYTES_MAX:
                raise ReplicaMalformed(
                    f"its file of checksums has version {version}, {self._chunk_bytes} bytes under one"
                )
            crc = CRC_OF_TYPE.get(checksum_type)
            if crc is None:
                raise ReplicaCorrupt("the replica has no checksums")
            self._crc = crc
            self._length_bytes = os.fstat(data).st_size
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, files: ReplicaFiles) -> Self:
        """Raises OSError, ReplicaMalformed, ReplicaCorrupt."""
        data = os.open(files.data_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            checksums = os.open(files.checksums_path, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            os.close(data)
            raise
        return cls(data, checksums)

    def read_cached(self, position: int, length_bytes: int) -> memoryview | None:
        """The range, verified, if the page cache has all of it: this never waits for a disk.

        Raises OSError, ReplicaShort, ReplicaCorrupt.
        """
        return self._read(position, length_bytes, os.RWF_NOWAIT)

    def read(self, position: int, length_bytes: int) -> memoryview:
        """The range, verified; what follows is read ahead by the kernel. Raises OSError, ReplicaShort, ReplicaCorrupt."""
        os.posix_fadvise(self._data, position, length_bytes + READ_AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
        found = self._read(position, length_bytes, 0)
        if found is None:
            raise OSError(errno.EIO, "the file gives fewer bytes than it has")
        return found

    def close(self) -> None:
        os.close(self._data)
        os.close(self._checksums)

    def _read(self, position: int, length_bytes: int, flags: int) -> memoryview | None:
        if position + length_bytes > self._length_bytes:
            raise ReplicaShort(f"it has {self._length_bytes} bytes, {position + length_bytes} are needed")
        chunk_bytes = self._chunk_bytes
        first, behind = position // chunk_bytes, -(-(position + length_bytes) // chunk_bytes)
        start = first * chunk_bytes
        data = memoryview(bytearray(min(behind * chunk_bytes, self._length_bytes) - start))
        checksums = memoryview(bytearray((behind - first) * CHECKSUM_BYTES))
        if not _fill(self._checksums, checksums, _HEADER.size + first * CHECKSUM_BYTES, flags):
            return None
        if not _fill(self._data, data, start, flags):
            return None
        wrong = wrong_chunk(self._crc, data, chunk_bytes, checksums)
        if wrong is not None:
            raise ReplicaCorrupt(f"the chunk at byte {start + wrong * chunk_bytes} does not have its checksum")
        return data[position - start : position - start + length_bytes]


def _fill(file: int, target: memoryview, position: int, flags: int) -> bool:
    """Fill the buffer. Returns False if fewer bytes came. Raises OSError."""
    filled = 0
    while filled < len(target):
        try:
            count = os.preadv(file, [target[filled:]], position + filled, flags)
        except OSError as error:
            if flags and error.errno in _CANNOT_TELL:
                return False
            raise
        if not count:
            return False
        filled += count
    return True
