"""Facts of this machine and of the servers of bmq on it, from /proc. Each function blocks; what cannot be read is left out."""

from __future__ import annotations

import json
import os
import platform
import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any, Final

from bmq.cli.doctor.probes.ports import own_processes

TAIL_BYTES: Final = 1 << 20
TEXT_BYTES_MAX: Final = 64 << 10
PROCESSES_MAX: Final = 64
_SYSTEM_FILES: Final = (
    "proc/meminfo",
    "proc/loadavg",
    "proc/uptime",
    "proc/pressure/cpu",
    "proc/pressure/memory",
    "proc/pressure/io",
    "proc/net/sockstat",
    "proc/sys/vm/swappiness",
    "proc/sys/vm/dirty_ratio",
    "proc/sys/net/core/somaxconn",
    "proc/sys/fs/file-nr",
    "proc/self/cgroup",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "etc/os-release",
)
_PROCESS_FILES: Final = ("status", "limits", "stat", "wchan", "sched", "cgroup")


def versions() -> dict[str, Any]:
    """Releases of bmq, Python, the kernel, and of each package that is installed beside them."""
    return {
        "bmq": version("bmq"),
        "python": sys.version,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "packages": dict(sorted((str(one.name), one.version) for one in distributions())),
    }


def environment(variables: Mapping[str, str], root: Path = Path("/")) -> dict[str, Any]:
    """Limits, memory, kernel settings and the variables that bmq and its libraries read."""
    limits = {
        name.removeprefix("RLIMIT_"): resource.getrlimit(getattr(resource, name))
        for name in dir(resource)
        if name.startswith("RLIMIT_")
    }
    prefixes = ("BMQ_", "HADOOP_", "KRB5", "JAVA_", "PYTHON", "LANG", "LC_")
    return {
        "processors": os.cpu_count(),
        "processors_usable": len(os.sched_getaffinity(0)),
        "user": os.geteuid(),
        "limits": limits,
        "files": {name: text for name in _SYSTEM_FILES if (text := text_of(root / name)) is not None},
        "variables": {name: _opened(value) for name, value in sorted(variables.items()) if name.startswith(prefixes)},
    }


def _opened(value: str) -> Any:
    """A JSON object as one, so that the names in it show which of its values are secret."""
    try:
        found = json.loads(value) if value.lstrip().startswith("{") else value
    except (ValueError, RecursionError):
        return value
    return found


def processes(root: Path = Path("/")) -> list[dict[str, Any]]:
    """The servers that run here: command, limits, state, number of open files."""
    return [
        {
            "pid": pid,
            "command": (text_of(root / f"proc/{pid}/cmdline") or "").replace("\0", " ").strip(),
            "open_files": _count(root / f"proc/{pid}/fd"),
            "threads": _count(root / f"proc/{pid}/task"),
            "files": {
                name: text for name in _PROCESS_FILES if (text := text_of(root / f"proc/{pid}/{name}")) is not None
            },
        }
        for pid in own_processes(root)[:PROCESSES_MAX]
    ]


def log_files(root: Path = Path("/")) -> list[Path]:
    """Files that standard output or standard error of a server here goes to."""
    found: dict[Path, None] = {}
    for pid in own_processes(root)[:PROCESSES_MAX]:
        for number in (1, 2):
            with suppress(OSError):
                path = (root / f"proc/{pid}/fd/{number}").readlink()
                if path.is_file():
                    found[path] = None
    return list(found)


def tail(path: Path, bytes_max: int = TAIL_BYTES) -> str:
    """The last whole lines of a regular file. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe would wait for its writer
    with os.fdopen(descriptor, "rb") as file:
        if not path.is_file():
            raise OSError(22, "it is no regular file")
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - bytes_max))
        data = file.read(bytes_max)
    if length > bytes_max:
        data = data.partition(b"\n")[2]
    return data.decode(errors="replace")


def text_of(path: Path) -> str | None:
    """The beginning of a small file; None if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(TEXT_BYTES_MAX).decode(errors="replace")
    except OSError:
        return None


def _count(directory: Path) -> int | None:
    try:
        return sum(1 for _ in _entries(directory))
    except OSError:
        return None


def _entries(directory: Path) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            yield entry.name
