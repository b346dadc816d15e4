"""The settings on both sides of Spark's scans, and where the default is measured."""

from __future__ import annotations

from typing import Final

from bench.hdfs.cluster import HEAP_MB
from bench.runner import Setting

SETTINGS: Final = (
    Setting(
        "bmq and Kafka",
        "segment.bytes of the topics, and of what ends them",
        "64 MiB, 1 MiB",
        "128 MiB of bmq, 1 GiB of Kafka",
        "not measured: with the default nothing of a topic of a GB would be closed",
    ),
    Setting(
        "Spark, all contenders",
        "master, heap, user interface",
        "local[2], 1 GiB (its default), none",
        "what a cluster gives it",
        "not measured: alike for all",
    ),
    Setting(
        "the source and the connector",
        "options",
        "only servers and topic; for scans of a part also columns or startingTimestamp",
        "the same",
        "nothing is set",
    ),
    Setting(
        "HDFS",
        "heap and collector of NameNode and DataNodes",
        f"{HEAP_MB} MiB, serial",
        "a quarter of the memory, G1",
        "bench.cluster: one run",
    ),
    Setting(
        "Apache Kafka",
        "JVM",
        "what kafka-server-start.sh passes: a heap of 1 GiB, G1",
        "the same",
        "nothing is set",
    ),
)
