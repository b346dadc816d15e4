"""CRC32C of the chunks of a block's bytes, as DataNodes keep and send them. By the kernel in C, or its twin where there is none.

`chunk_checksums(pieces, chunk_bytes)`: of every `chunk_bytes` of the pieces as if they were one, big-endian, CHECKSUM_BYTES each.
The last chunk may be shorter.

`write_chunk_checksums(packet, checksums_start, data_start, chunk_bytes)`: writes those of the packet's data, which is from
`data_start` to its end, into the packet.

`has_instruction()`: whether the kernel does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.hdfs.chunk_checksums_twin import CHECKSUM_BYTES
from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.hdfs.chunk_checksums_twin import chunk_checksums, has_instruction, write_chunk_checksums
else:
    from bmq.hdfs.chunk_checksums_native import has_instruction

    if has_instruction():
        from bmq.hdfs.chunk_checksums_native import chunk_checksums, write_chunk_checksums
    else:
        from bmq.hdfs.chunk_checksums_twin import chunk_checksums, write_chunk_checksums

__all__ = ["CHECKSUM_BYTES", "chunk_checksums", "has_instruction", "write_chunk_checksums"]
