"""What a cache may take of a machine's memory, and what the control groups leave of that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bmq.server.machine_memory import cache_bytes, memory_bytes

pytestmark = pytest.mark.unit

GIB = 2**30
MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("memory", "cache"),
    [(GIB, 64 * 2**20), (8 * GIB, GIB // 4), (64 * GIB, 2 * GIB), (1024 * GIB, 4 * GIB), (10 * GIB + 5, 320 * 2**20)],
)
def test_a_cache_gets_a_32nd_within_bounds(memory: int, cache: int) -> None:
    assert cache_bytes(memory) == cache


def machine(root: Path, groups: str, **limits: str) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for path, text in limits.items():
        file = root / "sys/fs/cgroup" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_without_groups_it_is_the_machines(tmp_path: Path) -> None:
    assert memory_bytes(tmp_path) == MACHINE


def test_the_strictest_group_around_it_counts(tmp_path: Path) -> None:
    root = machine(
        tmp_path,
        "0::/services/bmq\n",
        **{"services/bmq/memory.max": "max\n", "services/memory.max": "500000000\n", "memory.max": "700000000\n"},
    )
    assert memory_bytes(root) == 500_000_000


def test_a_containers_own_root_counts(tmp_path: Path) -> None:
    assert memory_bytes(machine(tmp_path, "0::/\n", **{"memory.max": "123456789\n"})) == 123_456_789


def test_the_first_version_of_groups_counts(tmp_path: Path) -> None:
    groups = "5:cpu,cpuacct:/pod\n4:memory:/pod\n"
    root = machine(tmp_path, groups, **{"memory/pod/memory.limit_in_bytes": "234567890\n"})
    assert memory_bytes(root) == 234_567_890


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    groups = "4:memory:/\n"
    root = machine(tmp_path, groups, **{"memory/memory.limit_in_bytes": "9223372036854771712\n"})
    assert memory_bytes(root) == MACHINE
