"""What is set on the HDFS that both clients write to, and on the clients."""

from __future__ import annotations

from typing import Final

from bench.hdfs.client import CHECKSUM_CHUNK_BYTES
from bench.hdfs.cluster import HEAP_MB
from bench.hdfs.criteria import JVM_DEFAULTS
from bench.runner import Setting

SETTINGS: Final = (
    Setting(
        "HDFS",
        "heap and collector of NameNode and DataNodes",
        f"{HEAP_MB} MiB, serial",
        "a quarter of the memory, G1",
        JVM_DEFAULTS,
    ),
    Setting("Hadoop's client", "JVM", "a heap of 512 MiB, G1", "a quarter of the memory, G1", JVM_DEFAULTS),
    Setting(
        "all clients",
        "checksum chunk",
        f"{CHECKSUM_CHUNK_BYTES} bytes",
        "512 bytes",
        "not measured: the same for all, as bmq writes its segments",
    ),
    Setting(
        "HDFS",
        "dfs.namenode.redundancy.considerLoad",
        "false",
        "true",
        "not measured: of three DataNodes one would often count as too busy, and a file get two replicas",
    ),
    Setting(
        "bmq", "scheduling of the client under measurement", "the kernel's usual policy", "the same", "nothing is set"
    ),
)
