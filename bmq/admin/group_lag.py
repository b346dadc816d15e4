"""Lag of consumer groups, in records and in seconds, as of a scrape.

Each group is on one node, which exports it. The lag in records is the end of the log less the committed offset, as
kafka-consumer-groups.sh computes it. The lag in seconds is the time since the record at the committed offset was appended. It
is read off earlier scrapes: each remembers where the log ended. A group that was behind before the first scrape has at least
the time since that scrape.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.admin.metrics_settings import MetricsSettings
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage

OTHERS: Final = "(other)"
OFFSETS_MAX: Final = 100_000
"""Committed offsets that one scrape looks at; those of further groups are counted as unknown."""
PARTITIONS_MAX: Final = 10_000
"""Partitions whose ends are remembered."""
POINTS_MAX: Final = 64
"""Remembered ends of a partition; older ones are thinned out."""
_REFRESH_S: Final = 1.0
_OFFSETS_PER_TURN: Final = 2_000

Positions = Iterable[tuple[str, Mapping[str, Mapping[int, int]]]]
"""Group, and its committed offsets by topic and partition."""


class LogEnds(Protocol):
    """Where logs end."""

    async def of(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """High watermarks of these partitions; without those that are not known. Raises nothing, and has a bound in time."""


class EndHistory:
    """Where one log ended, at increasing times. Pure."""

    def __init__(self) -> None:
        self._times_s = array("d")
        self._ends = array("q")

    def note(self, now_s: float, end: int) -> None:
        """Remember an end. It never goes back."""
        if len(self._ends) >= 2 and self._ends[-1] == self._ends[-2] == end:
            self._times_s[-1] = now_s  # nothing was appended between the last two
            return
        if not self._ends or end >= self._ends[-1]:
            self._times_s.append(now_s)
            self._ends.append(end)
        if len(self._ends) > POINTS_MAX:
            old = POINTS_MAX // 2
            del self._times_s[1:old:2], self._ends[1:old:2]

    def forget_below(self, offset: int) -> None:
        """No group asks for an offset below this one any more."""
        known = bisect_right(self._ends, offset) - 1
        if known > 0:
            del self._times_s[:known], self._ends[:known]

    def behind_s(self, offset: int, now_s: float) -> float:
        """How long ago the record at this offset was appended; 0: it is not there yet."""
        after = bisect_right(self._ends, offset)
        if after == len(self._ends):
            return 0.0
        if after == 0:
            return max(0.0, now_s - self._times_s[0])
        end_before, end_after = self._ends[after - 1], self._ends[after]
        begin_s, end_s = self._times_s[after - 1], self._times_s[after]
        share = (offset - end_before) / (end_after - end_before)
        return max(0.0, now_s - (begin_s + share * (end_s - begin_s)))


@dataclass(slots=True)
class Lag:
    """Of one group in one topic, over the partitions in which it has committed. `seconds`: of the partition that is most
    behind. `committed`: sum of the offsets.
    """

    records: int = 0
    seconds: float = 0.0
    committed: int = 0

    def add(self, other: Lag) -> None:
        """The sum, and the longer time."""
        self.records += other.records
        self.seconds = max(self.seconds, other.seconds)
        self.committed += other.committed


def bounded(lags: Mapping[tuple[str, str], Lag], count_max: int) -> dict[tuple[str, str], Lag]:
    """Those with the most lag; the rest is added up under (OTHERS, OTHERS). Pure."""
    ordered = sorted(lags.items(), key=lambda item: (-item[1].records, item[0]))
    found = dict(ordered[:count_max])
    for _, lag in ordered[count_max:]:
        found.setdefault((OTHERS, OTHERS), Lag()).add(lag)
    return found


class GroupLag(Collector):
    """`refresh` before each scrape; `collect` shows what it found. `now_s`: a clock that does not go back."""

    def __init__(
        self,
        positions: Callable[[], Positions],
        ends: LogEnds,
        image: Callable[[], MetadataImage],
        now_s: Callable[[], float],
        settings: MetricsSettings,
    ) -> None:
        self._positions = positions
        self._ends = ends
        self._image = image
        self._now_s = now_s
        self._settings = settings
        self._lock = asyncio.Lock()
        self._refreshed_s = -math.inf
        self._histories: dict[TopicPartition, EndHistory] = {}
        self._known_ends: dict[TopicPartition, int] = {}
        self._lags: dict[tuple[str, str], Lag] = {}
        self._unknown_count = 0

    async def refresh(self) -> None:
        """Look at all groups of this node; at most once a second, and once at a time."""
        async with self._lock:
            if self._now_s() - self._refreshed_s < _REFRESH_S:
                return
            rows, unknown_count = await self._rows()
            wanted = {partition for _, _, offsets in rows for partition in offsets}
            ends = {partition: end for partition, end in self._known_ends.items() if partition in wanted}
            ends.update(await self._ends.of(wanted))
            now_s = self._refreshed_s = self._now_s()
            self._known_ends = ends
            self._remember(now_s, rows, ends)
            lags: dict[tuple[str, str], Lag] = {}
            for group, topic, offsets in rows:
                lag = lags.setdefault((group, topic), Lag())
                for partition, offset in offsets.items():
                    end = ends.get(partition)
                    if end is None:
                        unknown_count += 1
                        continue
                    history = self._histories.get(partition)
                    seconds = 0.0 if history is None else history.behind_s(offset, now_s)
                    lag.add(Lag(max(0, end - offset), seconds, offset))
            self._lags = bounded(lags, self._settings.group_topics_max)
            self._unknown_count = unknown_count

    async def _rows(self) -> tuple[list[tuple[str, str, dict[TopicPartition, int]]], int]:
        """Group, topic and offsets by partition, of topics that exist; and how many offsets were left out."""
        rows: list[tuple[str, str, dict[TopicPartition, int]]] = []
        seen_count = turn_count = left_out = 0
        topics = self._image().topics
        for group, by_topic in self._positions():
            for name, offsets in by_topic.items():
                topic = topics.get(name)
                if topic is None:
                    continue
                if seen_count + len(offsets) > OFFSETS_MAX:
                    left_out += len(offsets)
                    continue
                seen_count += len(offsets)
                rows.append((group, name, {TopicPartition(topic.topic_id, one): at for one, at in offsets.items()}))
            if seen_count - turn_count >= _OFFSETS_PER_TURN:
                turn_count = seen_count
                await asyncio.sleep(0)
        return rows, left_out

    def _remember(
        self,
        now_s: float,
        rows: Iterable[tuple[str, str, Mapping[TopicPartition, int]]],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        least: dict[TopicPartition, int] = {}
        for _, _, offsets in rows:
            for partition, offset in offsets.items():
                least[partition] = min(offset, least.get(partition, offset))
        self._histories = {key: history for key, history in self._histories.items() if key in ends}
        for partition, end in ends.items():
            history = self._histories.get(partition)
            if history is None:
                if len(self._histories) >= PARTITIONS_MAX:
                    continue
                history = self._histories[partition] = EndHistory()
            history.note(now_s, end)
            history.forget_below(least[partition])

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        labels = ["group", "topic"]
        records = GaugeMetricFamily(
            "bmq_group_lag_records", "Records behind what the group has committed in the topic.", labels=labels
        )
        seconds = GaugeMetricFamily(
            "bmq_group_lag_seconds",
            "Age of the first record that the group has not committed, in the partition where it is most behind.",
            labels=labels,
        )
        committed = GaugeMetricFamily(
            "bmq_group_committed_offset", "Sum of the group's committed offsets in the topic.", labels=labels
        )
        for names, lag in self._lags.items():
            records.add_metric(names, lag.records)
            seconds.add_metric(names, lag.seconds)
            committed.add_metric(names, lag.committed)
        yield from (records, seconds, committed)
        yield GaugeMetricFamily(
            "bmq_group_lag_unknown_offsets",
            "Committed offsets whose lag is not known: the end of the log is not, or there are too many.",
            value=self._unknown_count,
        )
