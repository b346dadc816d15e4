"""Owners' reports on their partitions: high watermarks (rule 5) and how busy they are. Decisions only.

Kept in the active controller's memory: a new controller knows the floors that were written with the last owners, and
gets the rest within one report interval. Rates are fading averages, so those of a partition that is no longer reported
go to zero. Times are the event loop's, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import exp
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.metadata.image import MetadataImage, PartitionImage
from bmq.protocol.internal_messages import PartitionReport

FADING_S: Final = 10.0
"""After this long without new traffic a rate is down to 37%."""
IN_USE_PER_S: Final = 0.02
"""A rate of requests or bytes; this is what a single request of some 15 s ago leaves."""
OFFLINE: Final = -2
"""Reported as the high watermark of a partition that the owner cannot serve: its log ends below the floor (rule 5)."""
FENCED: Final = -3
"""Reported for a partition whose directory a higher epoch has taken: it needs a new leader epoch."""
UNKNOWN: Final = -1
"""Reported by an owner that has not begun to write."""
_TROUBLES: Final = (OFFLINE, FENCED)
_INTERVAL_MIN_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """How much a node owns, and its load."""

    partitions: int = 0
    bytes_in_s: float = 0.0
    bytes_out_s: float = 0.0
    requests_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Rates:
    """One partition's traffic per second."""

    bytes_in: float = 0.0
    bytes_out: float = 0.0
    requests: float = 0.0


@dataclass(slots=True)
class _Report:
    """`high_watermark`: the highest reported in this leader epoch. `trouble`: OFFLINE, FENCED, or UNKNOWN for none."""

    leader_epoch: int
    high_watermark: int
    at_s: float
    rates: Rates
    trouble: int = UNKNOWN


class PartitionReports:
    """The newest report of each partition."""

    def __init__(self) -> None:
        self._reports: dict[UUID, dict[int, _Report]] = {}

    def take(
        self, image: MetadataImage, node_id: int, interval_ms: int, reports: Iterable[PartitionReport], now_s: float
    ) -> None:
        """Take a report of this node's partitions.

        Parts about another leader epoch than the present one are ignored.
        """
        interval_s = max(interval_ms / 1000, _INTERVAL_MIN_S)
        share = 1 - exp(-interval_s / FADING_S)
        for report in reports:
            partition = image.partition(report.topic_id, report.partition)
            if partition is None or partition.leader != node_id or partition.leader_epoch != report.leader_epoch:
                continue
            known = self._reports.setdefault(report.topic_id, {})
            old = known.get(report.partition)
            faded = Rates() if old is None else _faded(old, now_s)
            scale = share / interval_s
            rates = Rates(
                faded.bytes_in + max(report.bytes_in, 0) * scale,
                faded.bytes_out + max(report.bytes_out, 0) * scale,
                faded.requests + max(report.requests, 0) * scale,
            )
            # Keep OFFLINE and FENCED apart from the high watermark: what the leader acknowledged before still counts.
            trouble = report.high_watermark if report.high_watermark in _TROUBLES else UNKNOWN
            high_watermark = max(report.high_watermark, UNKNOWN)
            if old is not None and old.leader_epoch == report.leader_epoch:
                high_watermark = max(high_watermark, old.high_watermark)
            known[report.partition] = _Report(report.leader_epoch, high_watermark, now_s, rates, trouble)

    def forget(self, topic_id: UUID) -> None:
        """Drop the reports of a deleted topic."""
        self._reports.pop(topic_id, None)

    def floor_of(self, topic_id: UUID, partition: PartitionImage) -> int:
        """The offset up to which the partition's owners are known to have acknowledged records.

        Reports of owners before the present one went into its floor when it was named.
        """
        report = self._present(topic_id, partition)
        return max(partition.high_watermark_floor, 0, UNKNOWN if report is None else report.high_watermark)

    def is_served(self, topic_id: UUID, partition: PartitionImage) -> bool:
        """Whether the present owner has begun to write."""
        report = self._present(topic_id, partition)
        return report is not None and report.high_watermark > UNKNOWN and report.trouble == UNKNOWN

    def is_offline(self, topic_id: UUID, partition: PartitionImage) -> bool:
        """Whether the present owner found less than was acknowledged, and so does not serve (rule 5)."""
        report = self._present(topic_id, partition)
        return report is not None and report.trouble == OFFLINE

    def fenced(self, image: MetadataImage, reports: Iterable[PartitionReport]) -> list[tuple[UUID, PartitionImage]]:
        """The reported partitions whose present owner found itself fenced."""
        found = []
        for report in reports:
            partition = image.partition(report.topic_id, report.partition)
            if (
                partition is not None
                and report.high_watermark == FENCED
                and partition.leader_epoch == report.leader_epoch
            ):
                found.append((report.topic_id, partition))
        return found

    def is_in_use(self, topic_id: UUID, partition: PartitionImage, now_s: float) -> bool:
        """Whether a client wrote to it or read from it a moment ago, so that its next owner has to start it at once."""
        if not self.is_served(topic_id, partition):
            return False
        rates = self.rates(topic_id, partition.partition, now_s)
        return rates.requests + rates.bytes_in + rates.bytes_out > IN_USE_PER_S

    def rates(self, topic_id: UUID, partition: int, now_s: float) -> Rates:
        report = self._reports.get(topic_id, {}).get(partition)
        return Rates() if report is None else _faded(report, now_s)

    def loads(self, image: MetadataImage, now_s: float) -> Mapping[int, NodeLoad]:
        """The load of every live node; partitions are counted by the present image."""
        sums: dict[int, list[float]] = {node_id: [0, 0, 0, 0] for node_id in image.nodes}
        for topic in image.logs():
            reports = self._reports.get(topic.topic_id, {})
            for partition in topic.partitions:
                if partition.leader in sums:
                    total = sums[partition.leader]
                    total[0] += 1
                    report = reports.get(partition.partition)
                    if report is not None:
                        rates = _faded(report, now_s)
                        total[1] += rates.bytes_in
                        total[2] += rates.bytes_out
                        total[3] += rates.requests
        return {node_id: _node_load(total) for node_id, total in sums.items()}

    def _present(self, topic_id: UUID, partition: PartitionImage) -> _Report | None:
        report = self._reports.get(topic_id, {}).get(partition.partition)
        return report if report is not None and report.leader_epoch == partition.leader_epoch else None


def _faded(report: _Report, now_s: float) -> Rates:
    left = exp(-max(now_s - report.at_s, 0.0) / FADING_S)
    rates = report.rates
    return Rates(rates.bytes_in * left, rates.bytes_out * left, rates.requests * left)


def _node_load(total: Sequence[float]) -> NodeLoad:
    return NodeLoad(int(total[0]), total[1], total[2], total[3])
