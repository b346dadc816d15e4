"""CRC32C of chunks in C: calls of native/chunk_checksums.c. They take microseconds, and keep the interpreter's lock."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

from bmq.hdfs import chunk_checksums_twin as twin
from bmq.log.store import Buffer
from bmq.records.native.calls import brief_function
from bmq.records.native.memory import Pins

_Pointer: Final = ctypes.c_void_p
_Int64: Final = ctypes.c_int64
_NO_INSTRUCTION: Final = -2
_FEW: Final = 6
"""So many chunks are quicker one by one than by a call."""


class _OpenChunk(ctypes.Structure):
    _fields_ = (("bytes", _Int64), ("crc", _Int64))


_write = brief_function(
    "bmq_chunk_checksums", _Pointer, _Int64, _Int64, ctypes.c_int32, ctypes.POINTER(_OpenChunk), _Pointer
)


def has_instruction() -> bool:
    """Whether the processor computes CRC32C."""
    return _write(None, 0, 1, 0, _OpenChunk(), None) != _NO_INSTRUCTION


def chunk_checksums(pieces: Sequence[Buffer], chunk_bytes: int) -> bytes:
    """As chunk_checksums.chunk_checksums."""
    size_bytes = sum(map(len, pieces))
    if size_bytes <= _FEW * chunk_bytes:
        return twin.chunk_checksums(pieces, chunk_bytes)
    found = bytearray(-(-size_bytes // chunk_bytes) * twin.CHECKSUM_BYTES)
    unfinished = _OpenChunk()
    last = len(pieces) - 1
    with Pins() as pins:
        target = pins.address(found)
        assert target is not None
        for number, piece in enumerate(pieces):
            written = _write(pins.address(piece), len(piece), chunk_bytes, number == last, unfinished, target)
            target += written * twin.CHECKSUM_BYTES
    return bytes(found)


def write_chunk_checksums(packet: bytearray, checksums_start: int, data_start: int, chunk_bytes: int) -> None:
    """As chunk_checksums.write_chunk_checksums."""
    data_bytes = len(packet) - data_start
    if data_bytes <= _FEW * chunk_bytes:
        twin.write_chunk_checksums(packet, checksums_start, data_start, chunk_bytes)
        return
    checksums_bytes = -(-data_bytes // chunk_bytes) * twin.CHECKSUM_BYTES
    if not 0 <= checksums_start <= checksums_start + checksums_bytes <= data_start:
        raise ValueError(f"no room for {checksums_bytes} bytes of checksums between {checksums_start} and {data_start}")
    with Pins() as pins:
        start = pins.address(packet)
        assert start is not None
        _write(start + data_start, data_bytes, chunk_bytes, 1, _OpenChunk(), start + checksums_start)
