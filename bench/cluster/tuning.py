"""What is set on either side of the comparison of clusters, and where the default is measured."""

from __future__ import annotations

from typing import Final

from bench.cluster.criteria import DEFAULT_SESSION, PAIRS
from bench.hdfs.cluster import HEAP_MB
from bench.runner import Setting

SETTINGS: Final = (
    Setting(
        "bmq",
        "scheduling of its nodes",
        "SCHED_BATCH: what bmq does by itself in front of HDFS",
        "SCHED_OTHER: what Kafka's brokers run under",
        f"{PAIRS}: one run of bmq under SCHED_OTHER, one of Kafka under SCHED_BATCH",
    ),
    Setting(
        "HDFS",
        "heap and collector of NameNode and DataNodes",
        f"{HEAP_MB} MiB, serial",
        "a quarter of the memory, G1",
        f"{PAIRS}: one run",
    ),
    Setting("bmq", "cluster.zookeeper_session_ms", "3000", "6000", DEFAULT_SESSION),
    Setting(
        "ZooKeeper",
        "tickTime, forceSync, JVM",
        "500 ms; no; a heap of 64 MiB, serial, simple compiler",
        "2000 ms; yes; a quarter of the memory, G1",
        "not measured: no produce and no fetch waits for ZooKeeper",
    ),
    Setting(
        "HDFS",
        "dfs.namenode.redundancy.considerLoad",
        "false",
        "true",
        "not measured: of three DataNodes one would often count as too busy, and a file get two replicas",
    ),
    Setting(
        "HDFS",
        "dfs.block.local-path-access.user",
        "the user that bmq's nodes run as: they read the files of DataNodes on their own machine, as Kafka reads its own",
        "nobody",
        "not measured: all bytes of a backlog then come through DataNodes",
    ),
    Setting(
        "bmq and Kafka",
        "segment.bytes of the topics of the restart",
        "2 MiB",
        "1 GiB",
        "not measured: the open blocks of 600 partitions would reserve more than this disk",
    ),
    Setting(
        "bmq and Kafka",
        "group.initial.rebalance.delay.ms",
        "0",
        "3000",
        "not measured: no figure has a rebalance in it",
    ),
    Setting(
        "Apache Kafka",
        "JVM",
        "what kafka-server-start.sh passes: a heap of 1 GiB, G1",
        "the same",
        "nothing is set",
    ),
)
