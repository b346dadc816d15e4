"""How the benchmarks open bmq's HDFS client."""

from __future__ import annotations

from random import Random
from typing import Final

from bmq.hdfs.config import Address, HdfsConfig, WriteMode
from bmq.hdfs.store import HdfsStore

CHECKSUM_CHUNK_BYTES: Final = 4096
USER: Final = "bench"


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


async def open_store(
    namenode: Address, root: str, random: Random, write_mode: WriteMode = WriteMode.FANOUT
) -> HdfsStore:
    """The client with its default settings. Raises StoreError."""
    config = HdfsConfig(
        namenodes=(namenode,),
        root=root,
        user=USER,
        write_mode=write_mode,
        checksum_chunk_bytes=CHECKSUM_CHUNK_BYTES,
    )
    return await HdfsStore.open(config, random)
