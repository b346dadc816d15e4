"""The size of a cluster for a load, step by step. Pure.

A node is one process on one core (docs/PERFORMANCE.md), so processor time decides how many processes there are, and
`bmq node --workers` puts several of them on one machine. Costs are those of large batches: many producers that send a few
records each need more.
"""

from __future__ import annotations

from math import ceil
from typing import Any, Final

from bmq.cli.sizing.figures import (
    ALL_SERVERS,
    FETCH,
    HDFS_WRITE,
    MEMORY_1000_PARTITIONS,
    MEMORY_BUSY,
    PRODUCE_1_KIB,
    PRODUCE_100_B,
    REPLICATION_MEASURED,
    START_1000_PARTITIONS,
    Figure,
)
from bmq.dataclass import dataclass

KIB: Final = 1024
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40
SECONDS_OF_HOUR: Final = 3_600
BITS: Final = 8

BUSY_SHARE_MAX: Final = 0.5
"""The share of a core, a network card or a disk's rate to plan with: the other half is for peaks, takeovers and catching up."""
DISK_SHARE_MAX: Final = 0.75
PARTITIONS_OF_PROCESS_MAX: Final = 1_000
"""More of them make a takeover and a start take long (docs/LIMITS.md)."""
SEGMENT_BYTES: Final = 128 * MIB
"""The default of segment.bytes."""
OBJECTS_OF_PARTITION: Final = 7
"""The partition's and the epoch's directory, the owner's file, and manifest and open segment with a block each."""
OBJECTS_OF_SEGMENT: Final = 4
"""A file and a block for a closed segment, and the same for its index."""
HEAP_BYTES_OF_OBJECT: Final = 150
"""Hadoop's rule of thumb for the NameNode's heap: 150 bytes an object (HADOOP-1687)."""
HEAP_BYTES_MIN: Final = GIB
SMALL_RECORD_BYTES: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """`records_s` and `record_bytes` as on the wire, after compression. `groups`: consumer groups that read all of it."""

    records_s: float
    record_bytes: int
    retention_hours: float
    partitions: int
    groups: int = 1
    replication: int = 3
    segment_bytes: int = SEGMENT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """What one machine has. `cores`: of a node's machine. `disk_bytes`, `disk_bytes_s`: of a DataNode, all disks together."""

    cores: int = 8
    network_bits_s: float = 10e9
    disk_bytes: float = 10 * TIB
    disk_bytes_s: float = 400e6


@dataclass(frozen=True, slots=True)
class Step:
    """`value` in `unit`; `how`: the arithmetic with its numbers; `source`: of a measured figure in it."""

    part: str
    name: str
    value: float
    unit: str
    how: str
    source: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "part": self.part,
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "how": self.how,
            "source": self.source,
        }


def plan(load: Load, machines: Machines) -> list[Step]:
    """All steps, in the order in which each needs those before it. Raises ValueError with one sentence."""
    _check(load, machines)
    steps = _Steps(load, machines)
    steps.traffic()
    steps.nodes()
    steps.datanodes()
    steps.namenode()
    return steps.found


def _check(load: Load, machines: Machines) -> None:
    bounds = {
        "records/s": (load.records_s, 1e12),
        "record size": (load.record_bytes, 2**31),
        "retention": (load.retention_hours, 1e6),
        "partitions": (load.partitions, 1e7),
        "replication": (load.replication, 512),
        "segment size": (load.segment_bytes, 2**31),
        "cores": (machines.cores, 1e5),
        "network": (machines.network_bits_s, 1e15),
        "disk": (machines.disk_bytes, 1e20),
        "disk rate": (machines.disk_bytes_s, 1e15),
    }
    for name, (value, most) in bounds.items():
        if not 0 < value <= most:
            raise ValueError(f"{name} has to be above 0 and at most {most:g}, and is {value:g}")
    if not 0 <= load.groups <= 1e6:
        raise ValueError(f"consumer groups have to be 0 to 1,000,000, and are {load.groups}")


class _Steps:
    def __init__(self, load: Load, machines: Machines) -> None:
        self._load = load
        self._machines = machines
        self.found: list[Step] = []
        self._in_bytes_s = 0.0
        self._stored_bytes = 0.0

    def _add(self, part: str, name: str, value: float, unit: str, how: str, *figures: Figure) -> float:
        self.found.append(Step(part, name, value, unit, how, "; ".join(figure.source for figure in figures)))
        return value

    def traffic(self) -> None:
        load = self._load
        self._in_bytes_s = self._add(
            "traffic",
            "produced",
            load.records_s * load.record_bytes,
            "B/s",
            f"{load.records_s:,.0f} records/s x {load.record_bytes:,} B",
        )
        self._add(
            "traffic", "consumed", self._in_bytes_s * load.groups, "B/s", f"produced x {load.groups} consumer groups"
        )
        hours_s = load.retention_hours * SECONDS_OF_HOUR
        self._stored_bytes = self._add(
            "traffic", "kept", self._in_bytes_s * hours_s, "B", f"produced x {load.retention_hours:,g} h"
        )

    def nodes(self) -> None:
        load, machines = self._load, self._machines
        record_s = self._record_cpu_s()
        produce = self._add(
            "nodes",
            "processor for produces",
            load.records_s * record_s,
            "cores",
            f"{load.records_s:,.0f} records/s x {record_s * 1e6:.2f} us, from the costs of 100 B and 1 KiB records",
            PRODUCE_100_B,
            PRODUCE_1_KIB,
        )
        write = self._add(
            "nodes",
            "processor for writing to HDFS",
            self._in_bytes_s / 1e9 * HDFS_WRITE.value * load.replication / REPLICATION_MEASURED,
            "cores",
            f"{self._in_bytes_s / 1e9:.3f} GB/s x {HDFS_WRITE.value:g} s/GB x {load.replication}/{REPLICATION_MEASURED}",
            HDFS_WRITE,
        )
        fetch = self._add(
            "nodes",
            "processor for fetches",
            self._in_bytes_s * load.groups / (FETCH.value * 1e6),
            "cores",
            f"{self._in_bytes_s * load.groups / 1e6:,.1f} MB/s / {FETCH.value:,g} MB per CPU second",
            FETCH,
        )
        by_cpu = ceil((produce + write + fetch) / BUSY_SHARE_MAX)
        by_partitions = ceil(load.partitions / PARTITIONS_OF_PROCESS_MAX)
        processes = self._add(
            "nodes",
            "processes",
            max(by_cpu, by_partitions, 1),
            "",
            f"the larger of {produce + write + fetch:.2f} cores / {BUSY_SHARE_MAX:g} = {by_cpu} and "
            f"{load.partitions:,} partitions / {PARTITIONS_OF_PROCESS_MAX:,} = {by_partitions}",
        )
        out_bytes_s = self._in_bytes_s * (load.replication + load.groups)
        network_bytes_s = machines.network_bits_s / BITS * BUSY_SHARE_MAX
        by_network = ceil(max(out_bytes_s, self._in_bytes_s) / network_bytes_s)
        by_processes = ceil(processes / machines.cores)
        nodes = self._add(
            "nodes",
            "machines",
            max(by_processes, by_network, 2) + 1,
            "",
            f"the largest of {processes:.0f} processes / {machines.cores} cores = {by_processes}, sent "
            f"{out_bytes_s / 1e6:,.0f} MB/s (DataNodes and consumers) / {network_bytes_s / 1e6:,.0f} MB/s = {by_network}, "
            "and 2; and one more, as one may die",
        )
        self._add("nodes", "network of a machine, sent", out_bytes_s / nodes, "B/s", f"all that is sent / {nodes:.0f}")
        self._process(ceil(load.partitions / processes))

    def _process(self, per_process: int) -> None:
        """`per_process`: partitions of one process."""
        partition_mib = MEMORY_1000_PARTITIONS.value / 1_000
        self._add(
            "nodes",
            "memory of a process, without its caches",
            (MEMORY_BUSY.value + per_process * partition_mib) * MIB,
            "B",
            f"{MEMORY_BUSY.value:g} MiB + {per_process:,} partitions x {partition_mib:g} MiB; the caches take a 16th of the "
            "machine's memory more for each process",
            MEMORY_BUSY,
            MEMORY_1000_PARTITIONS,
        )
        self._add(
            "nodes",
            "start of a process",
            START_1000_PARTITIONS.value * per_process / 1_000,
            "s",
            f"{START_1000_PARTITIONS.value:g} s / 1,000 x {per_process:,} partitions, on the measured machine",
            START_1000_PARTITIONS,
        )

    def datanodes(self) -> None:
        load, machines = self._load, self._machines
        written_bytes_s = self._in_bytes_s * load.replication
        reserved = load.partitions * load.segment_bytes * load.replication
        disk = self._add(
            "HDFS",
            "disk",
            self._stored_bytes * load.replication + reserved,
            "B",
            f"kept x {load.replication} replicas + {load.partitions:,} open segments x {load.segment_bytes / MIB:g} MiB x "
            f"{load.replication}",
        )
        by_disk = ceil(disk / (machines.disk_bytes * DISK_SHARE_MAX))
        by_rate = ceil(written_bytes_s / (machines.disk_bytes_s * BUSY_SHARE_MAX))
        count = self._add(
            "HDFS",
            "DataNodes",
            max(by_disk, by_rate, load.replication) + 1,
            "",
            f"the largest of disk / {machines.disk_bytes * DISK_SHARE_MAX / TIB:.3g} TiB = {by_disk}, written "
            f"{written_bytes_s / 1e6:,.0f} MB/s / {machines.disk_bytes_s * BUSY_SHARE_MAX / 1e6:,.0f} MB/s = {by_rate}, and "
            f"{load.replication} replicas; and one more, as one may die",
        )
        self._add("HDFS", "disk of a DataNode", disk / count, "B", f"disk / {count:.0f}")
        self._add(
            "HDFS",
            "written by a DataNode",
            written_bytes_s / count,
            "B/s",
            f"{load.replication} x produced / {count:.0f}",
        )
        self._add(
            "HDFS",
            "processor of all servers, HDFS included",
            self._in_bytes_s / 1e9 * ALL_SERVERS.value * load.replication / REPLICATION_MEASURED,
            "cores",
            f"{self._in_bytes_s / 1e9:.3f} GB/s x {ALL_SERVERS.value:g} s/GB x {load.replication}/{REPLICATION_MEASURED}, "
            "of which DataNodes take most, in the kernel; without consumers",
            ALL_SERVERS,
        )

    def namenode(self) -> None:
        load = self._load
        segments = ceil(self._stored_bytes / load.segment_bytes)
        objects = self._add(
            "NameNode",
            "objects",
            load.partitions * OBJECTS_OF_PARTITION + segments * OBJECTS_OF_SEGMENT,
            "",
            f"{load.partitions:,} partitions x {OBJECTS_OF_PARTITION} + {segments:,} closed segments x {OBJECTS_OF_SEGMENT}",
        )
        self._add(
            "NameNode",
            "heap",
            max(objects * HEAP_BYTES_OF_OBJECT * 2, HEAP_BYTES_MIN),
            "B",
            f"{objects:,.0f} objects x {HEAP_BYTES_OF_OBJECT} B x 2, for the garbage collection; at least 1 GiB",
        )
        per_segment_s = load.segment_bytes * load.partitions / self._in_bytes_s
        self._add(
            "NameNode",
            "new segments",
            self._in_bytes_s / load.segment_bytes,
            "1/s",
            f"produced / {load.segment_bytes / MIB:g} MiB; each partition begins one every {per_segment_s / SECONDS_OF_HOUR:,.1f} h",
        )

    def _record_cpu_s(self) -> float:
        """Seconds for one record of this size: a line through the costs of two sizes, never below that of the smaller one."""
        small_s = 1 / PRODUCE_100_B.value
        large_s = KIB / (PRODUCE_1_KIB.value * 1e6)
        byte_s = (large_s - small_s) / (KIB - SMALL_RECORD_BYTES)
        return max(small_s, small_s + (self._load.record_bytes - SMALL_RECORD_BYTES) * byte_s)
