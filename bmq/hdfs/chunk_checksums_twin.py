"""CRC32C of chunks by the crc32c package, one chunk after the other. native/chunk_checksums.c gives the same answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct
from typing import Final

from crc32c import crc32c

from bmq.log.store import Buffer

CHECKSUM_BYTES: Final = 4


def has_instruction() -> bool:
    """As chunk_checksums.has_instruction."""
    return False


def chunk_checksums(pieces: Sequence[Buffer], chunk_bytes: int) -> bytes:
    """As chunk_checksums.chunk_checksums."""
    checksums: list[int] = []
    crc = 0
    missing_bytes = 0  # to the end of a chunk that an earlier piece began
    for piece in pieces:
        view = memoryview(piece)
        size_bytes = len(view)
        start = 0
        if missing_bytes:
            start = min(missing_bytes, size_bytes)
            crc = crc32c(view[:start], crc)
            missing_bytes -= start
            if not missing_bytes:
                checksums.append(crc)
        whole_end = size_bytes - (size_bytes - start) % chunk_bytes
        checksums += [crc32c(view[at : at + chunk_bytes]) for at in range(start, whole_end, chunk_bytes)]
        if whole_end < size_bytes:
            crc = crc32c(view[whole_end:])
            missing_bytes = chunk_bytes - (size_bytes - whole_end)
    if missing_bytes:
        checksums.append(crc)
    return _numbers(len(checksums)).pack(*checksums)


def write_chunk_checksums(packet: bytearray, checksums_start: int, data_start: int, chunk_bytes: int) -> None:
    """As chunk_checksums.write_chunk_checksums."""
    data = memoryview(packet)[data_start:]
    found = [crc32c(data[at : at + chunk_bytes]) for at in range(0, len(data), chunk_bytes)]
    _numbers(len(found)).pack_into(packet, checksums_start, *found)


@lru_cache(maxsize=4096)
def _numbers(count: int) -> Struct:
    return Struct(f">{count}I")
