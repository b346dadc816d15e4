"""Metrics by topic of the partitions that this process owns, made of counts that each partition keeps anyway.

Computed when Prometheus scrapes: nothing is counted a second time on the way of a batch. The number of topics with series of
their own is bounded: at the first scrape those with the most traffic get them, later ones as long as there is room. All others
are added up under OTHER_TOPICS, and a topic that is counted there stays there, so that no counter goes back.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.broker.partition_load import Figures
from bmq.log.partition_log import TopicPartition

OTHER_TOPICS: Final = "(other)"
"""Not the name of a topic: Kafka allows no parentheses in those."""
PARTITIONS_PER_TURN: Final = 500


class CountedPartition(Protocol):
    """A partition that is owned here."""

    @property
    def topic_partition(self) -> TopicPartition: ...

    @property
    def leader_epoch(self) -> int: ...

    @property
    def topic_name(self) -> str: ...

    def figures(self) -> Figures: ...


class TopicTotals:
    """Adds up what partitions count, by topic, across moves of partitions. Pure: the partitions are handed in.

    It holds no partition: what one counted between the last call and its end is left out.
    """

    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self._seen: dict[tuple[TopicPartition, int], Figures] = {}
        self._others: set[str] = set()
        self._totals: dict[str, list[int]] = {}
        self.sizes: Mapping[str, int] = {}
        self.partitions: Mapping[str, int] = {}

    def add(self, now: Mapping[CountedPartition, Figures]) -> Mapping[str, tuple[int, int, int]]:
        """Bytes in, records in and bytes out by topic since the start of the process. `now`: all partitions of now."""
        traffic: Counter[str] = Counter()
        for partition, figures in now.items():
            traffic[partition.topic_name] += figures.bytes_in + figures.bytes_out
        named = {partition.topic_name for partition in now}
        self._others &= named
        for topic in [topic for topic in self._totals if topic not in named and topic != OTHER_TOPICS]:
            del self._totals[topic]  # gone from this node: a series that comes back begins at 0, as after a restart
        for topic, _ in traffic.most_common():
            self._give_place(topic)
        seen: dict[tuple[TopicPartition, int], Figures] = {}
        for partition, figures in now.items():
            start = (partition.topic_partition, partition.leader_epoch)
            before = self._seen.get(start, _NOTHING)
            totals = self._totals[self._label(partition.topic_name)]
            for place, (value, old) in enumerate(zip(figures[:3], before[:3], strict=True)):
                totals[place] += value - old if value >= old else value  # less than before: it was started again
            seen[start] = figures
        self._seen = seen
        self.sizes, self.partitions = self._summed(now)
        return {topic: (totals[0], totals[1], totals[2]) for topic, totals in self._totals.items()}

    def _give_place(self, topic: str) -> None:
        if topic in self._totals or topic in self._others:
            return
        named = len(self._totals) - (OTHER_TOPICS in self._totals)
        if named < self._topics_max:
            self._totals[topic] = [0, 0, 0]
        else:
            self._others.add(topic)
            self._totals.setdefault(OTHER_TOPICS, [0, 0, 0])

    def _label(self, topic: str) -> str:
        return OTHER_TOPICS if topic in self._others else topic

    def _summed(self, now: Mapping[CountedPartition, Figures]) -> tuple[Counter[str], Counter[str]]:
        sizes: Counter[str] = Counter()
        partitions: Counter[str] = Counter()
        for partition, figures in now.items():
            label = self._label(partition.topic_name)
            sizes[label] += figures.size_bytes
            partitions[label] += 1
        return sizes, partitions


_NOTHING: Final = Figures(0, 0, 0, 0)
_COUNTERS: Final = (
    ("bmq_topic_in_bytes", "Bytes of record batches that were appended to partitions of this process."),
    (
        "bmq_topic_in_records",
        "Offsets that were given to records and markers in partitions of this process.",
    ),
    (
        "bmq_topic_out_bytes",
        "Bytes read from the memory of partitions of this process; what proxies read from the store is not in it.",
    ),
)


class TopicCollector(Collector):
    """Register it with the process's registry. `refresh` before each scrape. `owned`: the partitions of now."""

    def __init__(self, owned: Callable[[], Iterable[CountedPartition]], topics_max: int) -> None:
        self._owned = owned
        self._totals = TopicTotals(topics_max)
        self._found: Mapping[str, tuple[int, int, int]] = {}
        self._lock = asyncio.Lock()

    async def refresh(self) -> None:
        """Ask all partitions, in small turns of the event loop; one scrape at a time."""
        async with self._lock:
            now: dict[CountedPartition, Figures] = {}
            for number, partition in enumerate(tuple(self._owned()), 1):
                now[partition] = partition.figures()
                if number % PARTITIONS_PER_TURN == 0:
                    await asyncio.sleep(0)
            self._found = self._totals.add(now)

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        for place, (name, text) in enumerate(_COUNTERS):
            counter = CounterMetricFamily(name, text, labels=["topic"])
            for topic, totals in self._found.items():
                counter.add_metric([topic], totals[place])
            yield counter
        for name, text, values in (
            ("bmq_topic_log_bytes", "Bytes of the logs of partitions of this process.", self._totals.sizes),
            ("bmq_topic_owned_partitions", "Partitions of the topic that this process owns.", self._totals.partitions),
        ):
            gauge = GaugeMetricFamily(name, text, labels=["topic"])
            for topic, value in values.items():
                gauge.add_metric([topic], value)
            yield gauge
