"""What is set on either side when one core is compared with one core."""

from __future__ import annotations

from typing import Final

from bench.runner import Setting

SETTINGS: Final = (
    Setting(
        "bmq",
        "settings and scheduling",
        "bmq's defaults over a local directory, SCHED_OTHER; all its threads on one processor",
        "the same, on every processor",
        "`make bench`",
    ),
    Setting(
        "Apache Kafka",
        "JVM",
        "what kafka-server-start.sh passes: a heap of 1 GiB, G1; all its threads on one processor",
        "the same, on every processor",
        "`make bench`",
    ),
)
