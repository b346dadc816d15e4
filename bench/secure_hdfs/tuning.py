"""What is set on both HDFS, and on the clients."""

from __future__ import annotations

from typing import Final

from bench.hdfs.client import CHECKSUM_CHUNK_BYTES
from bench.hdfs.cluster import HEAP_MB
from bench.runner import Setting

_ALIKE: Final = "not measured: the same for all"
SETTINGS: Final = (
    Setting(
        "HDFS", "heap and collector of NameNode and DataNodes", f"{HEAP_MB} MiB, serial", "a quarter of the memory, G1", _ALIKE
    ),
    Setting("HDFS", "dfs.namenode.redundancy.considerLoad", "false", "true", _ALIKE),
    Setting("HDFS", "hadoop.rpc.protection and dfs.data.transfer.protection", "the part's", "authentication, none", "each part"),
    Setting(
        "HDFS and all clients", "dfs.encrypt.data.transfer.cipher.suites, with privacy", "AES/CTR/NoPadding", "none",
        "not measured: RC4 and 3DES are broken ciphers",
    ),
    Setting("Hadoop's client", "JVM", "a heap of 512 MiB, G1", "a quarter of the memory, G1", _ALIKE),
    Setting(
        "Hadoop's client", "AES", "Java's own, without libhadoop", "libhadoop's where it is installed",
        "not measured: Hadoop's jars have no native library",
    ),
    Setting("all clients", "checksum chunk", f"{CHECKSUM_CHUNK_BYTES} bytes", "512 bytes", _ALIKE),
)  # fmt: skip
