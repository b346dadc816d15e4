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
from typing import Final, Protocol

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.admin.metrics_settings import MetricsSettings
from bmq.dataclass import dataclass
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage

OTHERS: Final = "(other)"
OFFSETS_MAX: Final = 20_000
"""Committed offsets that one scrape looks at; those of groups for which there is no room are counted as unknown."""
PARTITIONS_MAX: Final = 10_000
"""Partitions whose ends are remembered."""
POINTS_MAX: Final = 64
"""Remembered ends of a partition; older ones are thinned out."""
_REFRESH_S: Final = 1.0
_ROWS_PER_TURN: Final = 2_000

Positions = Iterable[tuple[str, int, Callable[[], Mapping[str, Mapping[int, int]]]]]
"""Group, how many offsets it has committed, and what gives them by topic and partition."""
_Rows = list[tuple[str, str, dict[TopicPartition, int]]]
"""Group, topic and offsets by partition."""


class LogEnds(Protocol):
    """Where logs end."""

    async def of(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """High watermarks of these partitions as of now; without those that are not known. Raises nothing, and has a bound
        in time.
        """


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


class _Turns:
    """Gives others their turn of the event loop now and then."""

    def __init__(self) -> None:
        self._count = 0

    def is_over(self, count: int = 1) -> bool:
        """After `count` further rows: whether to give a turn now."""
        self._count += count
        if self._count < _ROWS_PER_TURN:
            return False
        self._count = 0
        return True


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
            turns = _Turns()
            wanted: set[TopicPartition] = set()
            for _, _, offsets in rows:
                wanted.update(offsets)
                if turns.is_over(len(offsets)):
                    await asyncio.sleep(0)
            fresh = await self._ends.of(wanted)
            now_s = self._refreshed_s = self._now_s()
            ends: dict[TopicPartition, int] = {}
            for partition in wanted:
                end = fresh.get(partition, self._known_ends.get(partition))
                if end is not None:
                    ends[partition] = end
                if turns.is_over():
                    await asyncio.sleep(0)
            self._known_ends = ends
            await self._remember(now_s, rows, fresh)
            lags, without_end_count = await self._lags_of(now_s, rows)
            self._lags = bounded(lags, self._settings.group_topics_max)
            self._unknown_count = unknown_count + without_end_count

    async def _rows(self) -> tuple[_Rows, int]:
        """Of topics that exist; and how many offsets were left out. Groups for which there is no room are not unpacked."""
        rows: _Rows = []
        turns = _Turns()
        seen_count = left_out = 0
        for group, count, look in self._positions():
            topics = self._image().topics
            if seen_count + count > OFFSETS_MAX:
                left_out += count
                if turns.is_over():
                    await asyncio.sleep(0)
                continue
            looked_count = 0
            for name, offsets in look().items():
                looked_count += len(offsets)
                topic = topics.get(name)
                if topic is not None:
                    rows.append((group, name, {TopicPartition(topic.topic_id, one): at for one, at in offsets.items()}))
            seen_count += looked_count
            if turns.is_over(1 + looked_count):
                await asyncio.sleep(0)
        return rows, left_out

    async def _lags_of(self, now_s: float, rows: _Rows) -> tuple[dict[tuple[str, str], Lag], int]:
        """By group and topic; and how many offsets have no known end."""
        lags: dict[tuple[str, str], Lag] = {}
        unknown_count = 0
        turns = _Turns()
        for group, topic, offsets in rows:
            lag = lags.setdefault((group, topic), Lag())
            for partition, offset in offsets.items():
                if turns.is_over():
                    await asyncio.sleep(0)
                end = self._known_ends.get(partition)
                if end is None:
                    unknown_count += 1
                    continue
                lag.records += max(0, end - offset)
                lag.committed += offset
                history = self._histories.get(partition)
                if history is not None:
                    lag.seconds = max(lag.seconds, history.behind_s(offset, now_s))
        return lags, unknown_count

    async def _remember(self, now_s: float, rows: _Rows, fresh: Mapping[TopicPartition, int]) -> None:
        """Only ends as of now: an old one would look like a log that has not grown since."""
        least: dict[TopicPartition, int] = {}
        turns = _Turns()
        for _, _, offsets in rows:
            for partition, offset in offsets.items():
                least[partition] = min(offset, least.get(partition, offset))
                if turns.is_over():
                    await asyncio.sleep(0)
        kept = self._known_ends
        self._histories = {key: history for key, history in self._histories.items() if key in kept}
        for partition, end in fresh.items():
            if turns.is_over():
                await asyncio.sleep(0)
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
