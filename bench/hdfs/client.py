"""How the benchmarks open bmq's HDFS client."""

from __future__ import annotations

import os
from random import Random
from typing import Final

from bmq.hdfs.config import Address, HdfsConfig, WriteMode
from bmq.hdfs.hadoop_site import hadoop_properties
from bmq.hdfs.security import HadoopSecurity
from bmq.hdfs.store import HdfsStore

CHECKSUM_CHUNK_BYTES: Final = 4096
USER: Final = "bench"
PRINCIPAL: Final = "BMQ_HDFS__PRINCIPAL"
KEYTAB: Final = "BMQ_HDFS__KEYTAB"
"""Variables of the environment, beside HADOOP_CONF_DIR, by which a client logs in to a secure HDFS."""


def address_of(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host, int(port))


async def open_store(
    namenode: Address, root: str, random: Random, write_mode: WriteMode = WriteMode.FANOUT
) -> HdfsStore:
    """The client with its default settings; the environment says whether it logs in. Raises StoreError."""
    security = HadoopSecurity.of(
        hadoop_properties(os.environ), principal=os.environ.get(PRINCIPAL, ""), keytab=os.environ.get(KEYTAB, "")
    )
    config = HdfsConfig(
        namenodes=(namenode,),
        root=root,
        user=USER,
        write_mode=write_mode,
        checksum_chunk_bytes=CHECKSUM_CHUNK_BYTES,
        security=security,
    )
    return await HdfsStore.open(config, random)
