"""Whether ZooKeeper answers, and soon enough. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from bmq.cli.doctor.finding import Finding, error, ok, warning
from bmq.dataclass import dataclass

CHECK: Final = "ZooKeeper"
SLOW_MS: Final = 100.0
TOO_SLOW_MS: Final = 1_000.0
"""Sessions end after 6 s without an answer (docs/CONFIG.md), and the nodes of a cluster with them."""


@dataclass(frozen=True, slots=True)
class ZooKeeperServer:
    """`sessions_ms`: how long each of several sessions took to be given, which is a write of the ensemble.

    `trouble`: why the server gives none, as a sentence; empty if it does.
    """

    address: str
    sessions_ms: tuple[float, ...] = ()
    trouble: str = ""


def zookeeper_findings(servers: Sequence[ZooKeeperServer]) -> list[Finding]:
    """One finding for each server that is away or slow, else one for all."""
    away = [server for server in servers if server.trouble]
    found = []
    for server in away:
        make = error if len(away) == len(servers) else warning
        found.append(
            make(
                CHECK,
                f"{server.trouble}"
                + ("" if len(away) == len(servers) else f" ({len(servers)} servers are configured)"),
                "start it; check its log, its port and the setting `zookeeper`; a majority of the servers has to live",
            )
        )
    for server in servers:
        if not server.sessions_ms or (middle_ms := median(server.sessions_ms)) < SLOW_MS:
            continue
        make = error if middle_ms >= TOO_SLOW_MS else warning
        found.append(
            make(
                CHECK,
                f"{server.address} takes {middle_ms:.0f} ms to give a session (median of {len(server.sessions_ms)})",
                "give its transaction log a disk of its own, look at its garbage collection and at what else uses it",
            )
        )
    if found:
        return found
    slowest_ms = max(median(server.sessions_ms) for server in servers)
    return [ok(CHECK, f"{len(servers)} of {len(servers)} servers give a session in {slowest_ms:.1f} ms at most")]
