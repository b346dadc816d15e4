"""Whether the machine has the descriptors, memory and disk that a node needs. Decisions only."""

from __future__ import annotations

from typing import Final

from bmq.cli.doctor.finding import Finding, bytes_text, error, not_applicable, ok, percent, warning
from bmq.dataclass import dataclass

OPEN_FILES: Final = "open files"
MEMORY: Final = "memory"
DATA_DISK: Final = "data disk"

OPEN_FILES_MIN: Final = 4_096
OPEN_FILES_BESIDE_CLIENTS: Final = 2_000
"""Descriptors of segments, of connections to DataNodes and between nodes, beside those of clients."""
MEMORY_WARNING: Final = 0.10
MEMORY_ERROR: Final = 0.03
CACHES_WARNING: Final = 0.25
CACHES_ERROR: Final = 0.60
SWAPPED_WARNING: Final = 0.10
DISK_WARNING: Final = 0.10
DISK_ERROR: Final = 0.02


@dataclass(frozen=True, slots=True)
class OpenFilesLimit:
    """`hard`: the limit of process `whose`, to which a server raises its own; None: no limit."""

    hard: int | None
    whose: str
    connections_max: int


def open_files_finding(limit: OpenFilesLimit) -> Finding:
    if limit.hard is None:
        return ok(OPEN_FILES, f"{limit.whose} has no limit")
    needed = limit.connections_max + OPEN_FILES_BESIDE_CLIENTS
    seen = f"{limit.whose} may have {limit.hard} open files"
    to_do = (
        f"raise the hard limit to {needed} or more: LimitNOFILE= of the systemd unit, or /etc/security/limits.conf, "
        "and restart the node; or lower proxy.connections_max"
    )
    if limit.hard < OPEN_FILES_MIN:
        return error(OPEN_FILES, seen, to_do)
    if limit.hard < needed:
        return warning(OPEN_FILES, f"{seen}, and proxy.connections_max is {limit.connections_max}", to_do)
    return ok(OPEN_FILES, seen)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. `total`: of the machine, or of this process's control group. `available`: as the kernel estimates it.

    `page_cache`: of files. `caches_max`: what the settings let a server cache itself.
    """

    total: int
    available: int
    page_cache: int
    swap_used: int
    caches_max: int
    is_store_local: bool


def memory_findings(memory: Memory) -> list[Finding]:
    """One finding for each way in which memory is short, else one."""
    found = []
    free = memory.available / memory.total if memory.total else 0.0
    if free < MEMORY_WARNING:
        make = error if free < MEMORY_ERROR else warning
        found.append(
            make(
                MEMORY,
                f"{bytes_text(memory.available)} of {bytes_text(memory.total)} are available",
                "stop what else uses memory here, give the machine more, or run fewer processes on it",
            )
        )
    if memory.total and memory.caches_max / memory.total > CACHES_WARNING:
        make = error if memory.caches_max / memory.total > CACHES_ERROR else warning
        found.append(
            make(
                MEMORY,
                f"the caches of the settings may take {bytes_text(memory.caches_max)}, "
                f"{percent(memory.caches_max, memory.total)} of the memory",
                "lower fetch.read_cache_bytes_max and broker.tail_cache_bytes_max",
            )
        )
    if memory.total and memory.swap_used / memory.total > SWAPPED_WARNING:
        found.append(
            warning(
                MEMORY,
                f"{bytes_text(memory.swap_used)} are swapped out: a server that waits for its pages pauses",
                "free memory, or switch swap off (`swapoff -a`, vm.swappiness = 1)",
            )
        )
    seen = f"{bytes_text(memory.available)} of {bytes_text(memory.total)} are available"
    if memory.is_store_local:
        seen += f", {bytes_text(memory.page_cache)} are page cache"
    return found or [ok(MEMORY, seen)]


@dataclass(frozen=True, slots=True)
class DataDisk:
    """The disk of the embedded store. `trouble`: why it cannot be used, a clause. `writes_ms`: synced writes of 4 KiB."""

    path: str
    trouble: str = ""
    free_bytes: int = 0
    size_bytes: int = 0
    free_files: int = 0
    files: int = 0
    writes_ms: tuple[float, ...] = ()


SYNC_WARNING_MS: Final = 100.0
SYNC_ERROR_MS: Final = 1_000.0


def data_disk_findings(disk: DataDisk | None) -> list[Finding]:
    """None: the store is on HDFS. One finding for each thing that is wrong, else one."""
    if disk is None:
        return [not_applicable(DATA_DISK, "the store is on HDFS: a node keeps no data on its disk")]
    if disk.trouble:
        return [
            error(DATA_DISK, f"the directory {disk.path} cannot be used: {disk.trouble}", "make it usable (`data`)")
        ]
    found = []
    shares = {"bytes": (disk.free_bytes, disk.size_bytes), "files": (disk.free_files, disk.files)}
    for what, (free, size) in shares.items():
        if not size or free / size >= DISK_WARNING:  # some file systems have no number of files
            continue
        shown = f"{bytes_text(free)} of {bytes_text(size)}" if what == "bytes" else f"{free} of {size} files"
        make = error if free / size < DISK_ERROR else warning
        found.append(
            make(
                DATA_DISK,
                f"{shown} are free on the disk of {disk.path}",
                "make space, shorten retention, or move `data` to a larger disk; a full disk refuses produces",
            )
        )
    slowest_ms = max(disk.writes_ms, default=0.0)
    if slowest_ms >= SYNC_WARNING_MS:
        make = error if slowest_ms >= SYNC_ERROR_MS else warning
        found.append(
            make(
                DATA_DISK,
                f"one of {len(disk.writes_ms)} synced writes to {disk.path} took {slowest_ms:.0f} ms",
                "look at what else writes to this disk (`iostat -x 1`), and at its health",
            )
        )
    return found or [
        ok(
            DATA_DISK,
            f"{bytes_text(disk.free_bytes)} of {bytes_text(disk.size_bytes)} are free, a synced write takes "
            f"{slowest_ms:.1f} ms at most",
        )
    ]
