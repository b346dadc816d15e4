"""Checksums of chunks of a block, as DataNodes keep and send them. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import unpack
from typing import Final

from crc32c import crc32c

from bmq.hdfs.chunk_checksums import CHECKSUM_BYTES as CHECKSUM_BYTES
from bmq.hdfs.chunk_checksums import chunk_checksums
from bmq.hdfs.proto.transfer_pb2 import ChecksumType
from bmq.log.store import Buffer

Crc = Callable[[memoryview], int]
CRC_OF_TYPE: Final[dict[int, Crc]] = {
    ChecksumType.CHECKSUM_CRC32: zlib.crc32,
    ChecksumType.CHECKSUM_CRC32C: crc32c,
}


def wrong_chunk(crc: Crc, data: memoryview, chunk_bytes: int, checksums: Buffer) -> int | None:
    """The number of the first chunk that does not have its checksum; the last chunk may be shorter.

    `checksums`: big-endian, one for each chunk.
    """
    if crc is crc32c:
        made = chunk_checksums((data,), chunk_bytes)
        if made == checksums:
            return None
        found: tuple[int, ...] = unpack(f">{len(made) // CHECKSUM_BYTES}I", made)
    else:
        found = tuple([crc(data[at : at + chunk_bytes]) for at in range(0, len(data), chunk_bytes)])
    wanted = unpack(f">{len(found)}I", checksums)
    return next((index for index, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1]), None)
