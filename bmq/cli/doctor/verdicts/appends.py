"""What the latency of small appends says about DataNodes: a pause of a JVM or of a disk shows as a late one. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.cli.doctor.finding import Finding, error, not_applicable, ok, warning
from bmq.dataclass import dataclass

CHECK: Final = "appends to HDFS"
PAUSE_MS: Final = 100.0
LONG_PAUSE_MS: Final = 1_000.0
"""A DataNode that leaves an append unanswered for 1.5 s counts as hung (hdfs.ack_timeout_s)."""
P50_WARNING_MS: Final = 20.0
"""On a quiet machine half of the appends take 0.25 ms (docs/benchmarks/hdfs.md)."""


@dataclass(frozen=True, slots=True)
class AppendProbe:
    """`latencies_ms`: of appends one after the other to a temporary file on `datanodes`, of which there should be
    `replicas_wanted`. `trouble`: why it could not be carried on, a sentence. `skipped`: why there was none.
    """

    latencies_ms: tuple[float, ...] = ()
    datanodes: tuple[str, ...] = ()
    replicas_wanted: int = 0
    trouble: str = ""
    skipped: str = ""


def append_findings(probe: AppendProbe) -> list[Finding]:
    """One finding for each thing that is wrong, else one."""
    if probe.skipped:
        return [not_applicable(CHECK, probe.skipped)]
    where = ", ".join(probe.datanodes) or "the DataNodes"
    found = []
    if probe.trouble:
        found.append(
            error(
                CHECK,
                f"appends to {where} failed after {len(probe.latencies_ms)}: {probe.trouble}",
                "look at the DataNodes' logs and disks, and at the network between this machine and them",
            )
        )
    if probe.datanodes and len(probe.datanodes) < probe.replicas_wanted:
        found.append(
            error(
                CHECK,
                f"HDFS gave a new file {len(probe.datanodes)} DataNodes ({where}), and hdfs.replication is "
                f"{probe.replicas_wanted}",
                "start DataNodes, or make room on them: new segments have too few replicas",
            )
        )
    if probe.latencies_ms:
        found += _latency_findings(probe, where)
    if found:
        return found
    return [ok(CHECK, f"{_figures(probe.latencies_ms)}, to {where}")]


def _latency_findings(probe: AppendProbe, where: str) -> list[Finding]:
    late = [each for each in probe.latencies_ms if each >= PAUSE_MS]
    if late:
        make = error if max(late) >= LONG_PAUSE_MS else warning
        return [
            make(
                CHECK,
                f"{len(late)} of {_figures(probe.latencies_ms)}: {where} paused",
                "look at the garbage collection of these DataNodes (-Xlog:gc), at their disks and at swapping; run the "
                "command again to see whether it is one of them",
            )
        ]
    if percentile(probe.latencies_ms, 0.5) >= P50_WARNING_MS:
        return [
            warning(
                CHECK,
                f"{_figures(probe.latencies_ms)}, to {where}: that is slow throughout",
                "look at the load of the DataNodes and at the network to them",
            )
        ]
    return []


def _figures(latencies_ms: Sequence[float]) -> str:
    return (
        f"{len(latencies_ms)} appends took {percentile(latencies_ms, 0.5):.2f} ms in the middle, "
        f"{percentile(latencies_ms, 0.99):.1f} ms at the 99th percentile, {max(latencies_ms):.0f} ms at most"
    )


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
