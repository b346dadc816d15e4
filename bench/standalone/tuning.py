"""What is set on either side of the comparison of two single servers."""

from __future__ import annotations

from typing import Final

from bench.runner import Setting

SETTINGS: Final = (
    Setting(
        "bmq",
        "settings and scheduling",
        "bmq's defaults; over a local directory the kernel's usual policy (SCHED_OTHER)",
        "the same",
        "nothing is set",
    ),
    Setting(
        "Apache Kafka",
        "JVM",
        "what kafka-server-start.sh passes: a heap of 1 GiB, G1",
        "the same",
        "nothing is set",
    ),
    Setting(
        "Apache Kafka",
        "group.initial.rebalance.delay.ms",
        "0, as in the configuration that Kafka is shipped with",
        "3000",
        "not measured: no load here waits for a group but the Java consumer, whose own figure leaves the joining out",
    ),
)
