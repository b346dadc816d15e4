"""Measured figures that a plan counts with, each with the row of docs/benchmarks that it is from. Pure."""

from __future__ import annotations

from typing import Final

from bmq.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """`page`: of docs/benchmarks. `row`: the beginning of the row whose column `bmq` has the value."""

    value: float
    unit: str
    page: str
    row: str

    @property
    def source(self) -> str:
        return f"docs/benchmarks/{self.page}.md, `{self.row}`"


PRODUCE_1_KIB: Final = Figure(318, "MB per CPU second", "core", "produce 1 KiB, per CPU second, MB")
PRODUCE_100_B: Final = Figure(1_589_788, "records per CPU second", "core", "produce 100 B, per CPU second, records")
FETCH: Final = Figure(2_648, "MB per CPU second", "core", "fetch a backlog, per CPU second, MB")
HDFS_WRITE: Final = Figure(1.23, "CPU seconds per GB", "hdfs", "client CPU per GB, fan-out, s")
ALL_SERVERS: Final = Figure(23.5, "CPU seconds per GB", "loads", "CPU of all servers per GB of 1 KiB produced, s")
MEMORY_BUSY: Final = Figure(229, "MiB", "standalone", "memory (PSS) at the end, MiB")
MEMORY_1000_PARTITIONS: Final = Figure(104, "MiB", "standalone", "memory (RSS) with 1,000 partitions, MiB")
START_1000_PARTITIONS: Final = Figure(6.82, "s", "standalone", "start with 1,000 partitions, s")

ALL_FIGURES: Final = (
    PRODUCE_1_KIB,
    PRODUCE_100_B,
    FETCH,
    HDFS_WRITE,
    ALL_SERVERS,
    MEMORY_BUSY,
    MEMORY_1000_PARTITIONS,
    START_1000_PARTITIONS,
)

REPLICATION_MEASURED: Final = 3
"""The replication of the loads that ALL_SERVERS was measured with."""
