"""The memory this process can use, and the default cache size as a share of it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

CACHE_SHARE: Final = 32  # several processes of one cluster may run on a machine, beside others
CACHE_BYTES_LEAST: Final = 64 * 1024 * 1024
CACHE_BYTES_MOST: Final = 4 * 1024 * 1024 * 1024


def cache_bytes(memory_bytes: int) -> int:
    """A 32nd of the memory, in whole MiB, 64 MiB at least and 4 GiB at most."""
    whole = memory_bytes // CACHE_SHARE // 2**20 * 2**20
    return min(max(whole, CACHE_BYTES_LEAST), CACHE_BYTES_MOST)


def memory_bytes(root: Path = Path("/")) -> int:
    """The machine's memory, or the limit of this process's control groups (cgroups(7), both versions)."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for path in _limit_files(root):
        with suppress(OSError, ValueError):  # no such file, or "max"
            limits.append(int(path.read_text()))
    return min(limit for limit in limits if limit > 0)


def _limit_files(root: Path) -> list[Path]:
    """The limit files of every group around this process; the strictest limit counts."""
    files = []
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            mount, name = ("", "memory.max") if not controllers else ("memory", "memory.limit_in_bytes")
            inside = PurePosixPath(group.lstrip("/"))
            files += [root / "sys/fs/cgroup" / mount / part / name for part in (inside, *inside.parents)]
    return files
