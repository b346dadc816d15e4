"""The result of `verify`: combines the results of all segments into one report. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from bmq.spark.jobs.segment_check import Finding, Kind


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """The result for one segment. Offsets are None without a batch; `replicas` None where none were compared.

    `is_gone`: it was deleted while the job ran, for example by retention. `finding_count` may exceed the number of
    `findings`.
    """

    topic: str
    partition: int
    path: str
    base_offset: int | None
    end_offset: int | None
    batches: int = 0
    records: int = 0
    bytes: int = 0
    replicas: int | None = None
    replica_bytes: int = 0
    is_gone: bool = False
    is_open: bool = False
    is_compacted: bool = False
    is_run: bool = False
    finding_count: int = 0
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "findings": [finding.to_json() for finding in self.findings]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> SegmentResult:
        findings = tuple(Finding.from_json(each) for each in document["findings"])
        return cls(**{**document, "findings": findings})


@dataclass(slots=True)
class PartitionSummary:
    """`replicas`: of the block with the fewest. `runs`: of delayed records; their bytes are in `bytes`, their records are not counted."""

    topic: str
    partition: int
    segments: int = 0
    gone: int = 0
    runs: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0
    replicas: int | None = None
    replica_bytes: int = 0
    base_offset: int | None = None
    end_offset: int | None = None
    findings: int = 0


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """`finding_count` may exceed the number of `findings`: only the first ones of each segment are kept."""

    partitions: tuple[PartitionSummary, ...]
    findings: tuple[Finding, ...]
    finding_count: int

    @property
    def is_clean(self) -> bool:
        return not self.finding_count

    def to_json(self) -> dict[str, Any]:
        return {
            "is_clean": self.is_clean,
            "finding_count": self.finding_count,
            "findings": [finding.to_json() for finding in self.findings],
            "partitions": [asdict(partition) for partition in self.partitions],
        }


def report_of(results: Iterable[SegmentResult]) -> VerifyReport:
    """Sums per partition, plus the check that each segment begins where the one before it ends."""
    by_partition: dict[tuple[str, int], list[SegmentResult]] = {}
    for result in results:
        by_partition.setdefault((result.topic, result.partition), []).append(result)
    summaries, findings, count = [], [], 0
    for (topic, partition), segments in sorted(by_partition.items()):
        here = [finding for segment in segments for finding in segment.findings]
        between = _between(segments)
        summary = PartitionSummary(topic, partition, findings=len(between))
        for segment in segments:
            _add(summary, segment)
        summaries.append(summary)
        findings += [*here, *between]
        count += summary.findings
    return VerifyReport(tuple(summaries), tuple(findings), count)


def _add(summary: PartitionSummary, segment: SegmentResult) -> None:
    summary.findings += segment.finding_count
    if segment.is_gone:
        summary.gone += 1
        return
    if segment.is_run:
        summary.runs += 1
    else:
        summary.segments += 1
    summary.batches += segment.batches
    summary.records += segment.records
    summary.bytes += segment.bytes
    summary.replica_bytes += segment.replica_bytes
    if segment.replicas is not None:
        summary.replicas = segment.replicas if summary.replicas is None else min(summary.replicas, segment.replicas)
    if segment.batches and segment.base_offset is not None and segment.end_offset is not None:
        if summary.base_offset is None or segment.base_offset < summary.base_offset:
            summary.base_offset = segment.base_offset
        if summary.end_offset is None or segment.end_offset > summary.end_offset:
            summary.end_offset = segment.end_offset


def _between(segments: Iterable[SegmentResult]) -> list[Finding]:
    """Findings for segments that are not contiguous. A deleted segment has the offsets known when it was planned."""
    known = sorted(
        (
            each
            for each in segments
            if each.base_offset is not None and each.end_offset is not None and (each.batches or each.is_gone)
        ),
        key=lambda each: each.base_offset or 0,
    )
    found = []
    for earlier, later in pairwise(known):
        assert earlier.end_offset is not None and later.base_offset is not None
        is_hole = later.base_offset > earlier.end_offset
        if later.base_offset == earlier.end_offset or (is_hole and later.is_compacted):
            continue
        what = "offsets are missing between two segments" if is_hole else "offsets are in two segments"
        found.append(
            Finding(
                Kind.OFFSETS,
                later.topic,
                later.partition,
                later.path,
                f"{what}: {earlier.path} ends at {earlier.end_offset}",
                offset=later.base_offset,
            )
        )
    return found
