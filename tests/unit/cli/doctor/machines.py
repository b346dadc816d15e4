"""A machine that is in order, and nodes that answer as a test wants, for `bmq doctor`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import httpx

from bmq.cli.doctor.machine import Machine

MEMINFO = "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB\nCached: 6000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n"
NOW_S = 1_790_000_000.0


@dataclass
class FakeClock:
    """`elapsed_s` goes on by `step_s` with each look; `now_ms` as well, but for what is added to `off_ms`."""

    step_s: float = 0.0001
    off_ms: float = 0.0
    looked_s: float = 0.0

    def elapsed_s(self) -> float:
        self.looked_s += self.step_s
        return self.looked_s

    def now_ms(self) -> float:
        return (NOW_S + self.looked_s) * 1000 + self.off_ms


def disk_of(*, free_share: float = 0.5, files_share: float = 0.5) -> Callable[[Path], os.statvfs_result]:
    blocks = 1_000_000
    free, files = int(blocks * free_share), int(blocks * files_share)
    return lambda _: os.statvfs_result((4096, 4096, blocks, free, free, blocks, files, files, 0, 255))


def proc(root: Path, *, meminfo: str = MEMINFO) -> Path:
    """A /proc with memory and no processes."""
    (root / "proc/net").mkdir(parents=True)
    (root / "proc/meminfo").write_text(meminfo.replace(": ", ":       "))
    return root


def machine(root: Path, clock: FakeClock | None = None, **changes: Any) -> Machine:
    """In order but for `changes`: names resolve to this machine, the kernel keeps its clock, the disk is half empty."""
    times = clock or FakeClock()
    usual: dict[str, Any] = {
        "root": root if (root / "proc").exists() else proc(root),
        "now_ms": times.now_ms,
        "elapsed_s": times.elapsed_s,
        "resolve": lambda name: ("127.0.0.1",) if name in ("localhost", "127.0.0.1") else ("10.0.0.1",),
        "is_own_address": lambda address: True,
        "is_clock_synchronized": lambda: True,
        "open_files_hard_limit": lambda: 1_000_000,
        "disk": disk_of(),
    }
    return Machine(**(usual | changes))


@dataclass
class FakeNodes:
    """Nodes behind an httpx transport. `versions`, `clocks_off_s`: by host. `deaf`: hosts that never answer in time."""

    versions: Mapping[str, str]
    clocks_off_s: Mapping[str, float] = field(default_factory=dict)
    problems: Mapping[str, list[str]] = field(default_factory=dict)
    why: Mapping[str, list[dict[str, str]]] = field(default_factory=dict)
    deaf: frozenset[str] = frozenset()
    unready: frozenset[str] = frozenset()

    @property
    def transport(self) -> httpx.MockTransport:
        return httpx.MockTransport(self.answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        host, path = request.url.host, request.url.path
        if host in self.deaf:
            raise httpx.ReadTimeout("", request=request)
        if path == "/v1/cluster":
            nodes = [
                {"node_id": number, "host": each, "internal": f"{each}:9093", "rest": f"{each}:8080"}
                for number, each in enumerate(self.versions, 1)
            ]
            return httpx.Response(200, json={"nodes": nodes})
        if path == "/v1/health":
            document: dict[str, Any] = {"ready": host not in self.unready, "problems": self.problems.get(host, [])}
            if host in self.why:
                document["why"] = self.why[host]
            date = formatdate(NOW_S + self.clocks_off_s.get(host, 0.0), usegmt=True)
            return httpx.Response(200 if document["ready"] else 503, json=document, headers={"date": date})
        if path == "/metrics":
            return httpx.Response(200, text=f'# TYPE x gauge\nbmq_build_info{{version="{self.versions[host]}"}} 1.0\n')
        return httpx.Response(404, json={"detail": "no such page"})
