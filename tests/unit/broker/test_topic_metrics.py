"""Metrics by topic: what partitions count is added up, never goes back, and has a bounded number of series."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from uuid import UUID

import pytest
from prometheus_client import CollectorRegistry

from bmq.broker import topic_metrics
from bmq.broker.partition_load import Figures
from bmq.broker.topic_metrics import OTHER_TOPICS, TopicCollector, TopicTotals
from bmq.log.partition_log import TopicPartition

pytestmark = pytest.mark.unit


_numbers = count()


@dataclass(eq=False)
class Partition:
    """A partition whose counts the test sets."""

    topic_name: str
    counted: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    topic_partition: TopicPartition = field(default_factory=lambda: TopicPartition(UUID(int=1), next(_numbers)))
    leader_epoch: int = 1

    def figures(self) -> Figures:
        return Figures(*self.counted)


def added(totals: TopicTotals, owned: Iterable[Partition]) -> Mapping[str, tuple[int, int, int]]:
    return totals.add({partition: partition.figures() for partition in owned})


def test_partitions_of_a_topic_are_added_up() -> None:
    totals = TopicTotals(10)
    found = added(
        totals, [Partition("a", [10, 1, 5, 100]), Partition("a", [20, 2, 0, 50]), Partition("b", [1, 1, 1, 7])]
    )
    assert found == {"a": (30, 3, 5), "b": (1, 1, 1)}
    assert (totals.sizes, totals.partitions) == ({"a": 150, "b": 7}, {"a": 2, "b": 1})


def test_a_partition_that_leaves_takes_nothing_with_it() -> None:
    totals = TopicTotals(10)
    stays, leaves = Partition("a", [10, 1, 0, 0]), Partition("a", [5, 1, 0, 0])
    added(totals, [stays, leaves])
    assert added(totals, [stays])["a"] == (15, 2, 0)
    comes = Partition("a", [4, 1, 0, 0])
    assert added(totals, [stays, comes])["a"] == (19, 3, 0)


@pytest.mark.parametrize("leader_epoch", [1, 2])
def test_a_partition_that_starts_again_counts_from_0(leader_epoch: int) -> None:
    totals = TopicTotals(10)
    before = Partition("a", [10, 5, 3, 0])
    added(totals, [before])
    again = Partition("a", [4, 1, 2, 0], before.topic_partition, leader_epoch)
    assert added(totals, [again])["a"] == (14, 6, 5)


def test_an_ended_partition_is_not_held_until_the_next_scrape() -> None:
    totals = TopicTotals(10)
    partition = Partition("a", [10, 1, 0, 0])
    held = weakref.ref(partition)
    added(totals, [partition])
    del partition
    gc.collect()
    assert held() is None


def test_a_topic_that_is_gone_has_no_series() -> None:
    totals = TopicTotals(1)
    added(totals, [Partition("a", [10, 1, 0, 0])])
    added(totals, [])
    assert added(totals, []) == {}
    assert added(totals, [Partition("b", [3, 1, 0, 0])]) == {"b": (3, 1, 0)}, "its place is free"


def test_the_topics_with_most_traffic_get_series_and_others_are_added_up() -> None:
    totals = TopicTotals(2)
    partitions = [Partition(name, [size, 1, 0, size]) for name, size in (("a", 1), ("b", 9), ("c", 5), ("d", 2))]
    assert added(totals, partitions) == {"b": (9, 1, 0), "c": (5, 1, 0), OTHER_TOPICS: (3, 2, 0)}
    assert totals.sizes == {"b": 9, "c": 5, OTHER_TOPICS: 3}
    partitions[0].counted[0] = 100  # "a" is the busiest now, and stays where it is counted
    assert added(totals, partitions) == {"b": (9, 1, 0), "c": (5, 1, 0), OTHER_TOPICS: (102, 2, 0)}
    partitions.pop(1)
    added(totals, partitions)
    assert added(totals, partitions)[OTHER_TOPICS] == (102, 2, 0)


async def test_the_names_at_metrics() -> None:
    registry, partition = CollectorRegistry(), Partition("a", [10, 2, 5, 100])
    collector = TopicCollector(lambda: [partition], 200)
    registry.register(collector)
    await collector.refresh()
    for name, value in (
        ("bmq_topic_in_bytes_total", 10),
        ("bmq_topic_in_records_total", 2),
        ("bmq_topic_out_bytes_total", 5),
        ("bmq_topic_log_bytes", 100),
        ("bmq_topic_owned_partitions", 1),
    ):
        assert registry.get_sample_value(name, {"topic": "a"}) == value, name


async def test_scrapes_at_the_same_time_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_metrics, "PARTITIONS_PER_TURN", 1)
    partitions = [Partition("a", [10, 1, 0, 0]) for _ in range(4)]
    collector, registry = TopicCollector(lambda: partitions, 200), CollectorRegistry()
    registry.register(collector)
    scrapes = [asyncio.ensure_future(collector.refresh()) for _ in range(3)]
    for partition in partitions:
        await asyncio.sleep(0)
        partition.counted[0] += 5
    await asyncio.gather(*scrapes)
    await collector.refresh()
    assert registry.get_sample_value("bmq_topic_in_bytes_total", {"topic": "a"}) == 60
