"""This machine's limits, memory and disk, as the kernel tells them. Each function blocks."""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from bmq.cli.doctor.machine import Machine
from bmq.cli.doctor.probes.ports import own_processes
from bmq.cli.doctor.verdicts.machine import DataDisk, Memory, OpenFilesLimit
from bmq.hdfs.location import is_hdfs
from bmq.server.machine_memory import memory_bytes
from bmq.server.settings import Settings

SYNCED_WRITES: Final = 20
WRITE_BYTES: Final = 4096
_OPEN_FILES: Final = re.compile(r"^Max open files\s+(\S+)\s+(\S+)", re.MULTILINE)
_MEMORY_LINE: Final = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


def open_files_limit(settings: Settings, machine: Machine) -> OpenFilesLimit:
    """The lowest limit of the servers that run here; without any, that of this process."""
    connections_max = settings.proxy.connections_max
    lowest: OpenFilesLimit | None = None
    for pid in own_processes(machine.root):
        with suppress(OSError):
            match = _OPEN_FILES.search((machine.root / f"proc/{pid}/limits").read_text())
            if match is None or match[2] == "unlimited":
                continue
            if lowest is None or int(match[2]) < (lowest.hard or 0):
                lowest = OpenFilesLimit(int(match[2]), f"the server that runs here (process {pid})", connections_max)
    return lowest or OpenFilesLimit(machine.open_files_hard_limit(), "a server started from here", connections_max)


def memory(settings: Settings, machine: Machine) -> Memory:
    """Raises OSError."""
    lines = {name: int(kib) * 1024 for name, kib in _MEMORY_LINE.findall(_text(machine.root / "proc/meminfo"))}
    total = min(lines.get("MemTotal", 0), memory_bytes(machine.root))
    caches = settings.fetch.read_cache_bytes_max + settings.broker.tail_cache_bytes_max
    return Memory(
        total=total,
        available=min(total, lines.get("MemAvailable", 0)),
        page_cache=lines.get("Cached", 0),
        swap_used=lines.get("SwapTotal", 0) - lines.get("SwapFree", 0),
        caches_max=caches * max(1, settings.workers),
        is_store_local=not is_hdfs(settings.store),
    )


def data_directory(settings: Settings) -> Path | None:
    """The directory of the embedded store; None: the store is on HDFS."""
    if is_hdfs(settings.store):
        return None
    return Path(settings.store.removeprefix("file:").removeprefix("//")) if settings.store else settings.data


def data_disk(directory: Path, machine: Machine) -> DataDisk:
    """Writes and removes a small file there. A directory that does not exist yet is judged by the one above it."""
    place = directory
    while not place.is_dir() and place.parent != place:
        if place.exists():
            return DataDisk(str(directory), trouble=f"{place} is no directory")
        place = place.parent
    try:
        found = machine.disk(place)
        writes_ms = _synced_writes_ms(place, machine)
    except OSError as error:
        return DataDisk(str(directory), trouble=error.strerror or str(error))
    return DataDisk(
        str(directory),
        free_bytes=found.f_bavail * found.f_frsize,
        size_bytes=found.f_blocks * found.f_frsize,
        free_files=found.f_favail,
        files=found.f_files,
        writes_ms=writes_ms,
    )


def _synced_writes_ms(place: Path, machine: Machine) -> tuple[float, ...]:
    found = []
    with tempfile.TemporaryFile(dir=place, prefix=".bmq-doctor-") as file:
        for _ in range(SYNCED_WRITES):
            began_s = machine.elapsed_s()
            file.write(bytes(WRITE_BYTES))
            file.flush()
            os.fdatasync(file.fileno())
            found.append((machine.elapsed_s() - began_s) * 1000)
    return tuple(found)


def _text(path: Path) -> str:
    with path.open(encoding="ascii", errors="replace") as file:
        return file.read(1 << 20)
