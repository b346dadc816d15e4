"""Files as a DataNode keeps them of a finalized replica."""

from __future__ import annotations

from pathlib import Path
from struct import pack

from crc32c import crc32c

from bmq.hdfs.datanode_rpc import ReplicaFiles

CRC32C_TYPE = 2


def write_replica(
    directory: Path,
    content: bytes,
    *,
    chunk_bytes: int = 4096,
    generation_stamp: int = 1001,
    state: str = "finalized",
    header: bytes | None = None,
) -> ReplicaFiles:
    """`header`: of the file of checksums, if it is not the right one."""
    place = directory / "current" / state / "subdir0"
    place.mkdir(parents=True, exist_ok=True)
    data, checksums = place / "blk_7", place / f"blk_7_{generation_stamp}.meta"
    data.write_bytes(content)
    sums = [crc32c(content[at : at + chunk_bytes]) for at in range(0, len(content), chunk_bytes)]
    right = pack(">hbi", 1, CRC32C_TYPE, chunk_bytes)
    checksums.write_bytes((right if header is None else header) + pack(f">{len(sums)}I", *sums))
    return ReplicaFiles(str(data), str(checksums))


def damage(path: str, position: int) -> None:
    with Path(path).open("r+b") as file:
        file.seek(position)
        byte = file.read(1)
        file.seek(position)
        file.write(bytes([byte[0] ^ 0x10]))
