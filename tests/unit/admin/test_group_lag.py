"""Lag of groups: exact in records, read off earlier scrapes in seconds, bounded in number and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bmq.admin import group_lag
from bmq.admin.group_lag import OTHERS, POINTS_MAX, EndHistory, GroupLag, Lag, Positions, bounded
from bmq.admin.metrics_settings import MetricsSettings
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage
from tests.fakes.cluster_controller import image_of, topic_image

pytestmark = pytest.mark.unit


class Cluster:
    """Offsets, ends and time that a test sets."""

    def __init__(self, **settings: int) -> None:
        self.now_s = 100.0
        self.image: MetadataImage = image_of([], [topic_image("orders", 1, [1, 1]), topic_image("bills", 2, [1])])
        self.committed: dict[str, dict[str, dict[int, int]]] = {}
        self.log_ends: dict[TopicPartition, int] = {}
        self.asked: list[Collection[TopicPartition]] = []
        self.looked: list[str] = []
        self.lag = GroupLag(
            self.positions,
            self,
            lambda: self.image,
            lambda: self.now_s,
            MetricsSettings(**settings),
        )
        self.registry = CollectorRegistry()
        self.registry.register(self.lag)

    def positions(self) -> Positions:
        for group, by_topic in self.committed.items():
            yield group, sum(map(len, by_topic.values())), partial(self.look, group)

    def look(self, group: str) -> Mapping[str, Mapping[int, int]]:
        self.looked.append(group)
        return self.committed[group]

    async def of(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        self.asked.append(partitions)
        return {key: self.log_ends[key] for key in partitions if key in self.log_ends}

    def end(self, topic: str, partition: int, offset: int) -> None:
        self.log_ends[TopicPartition(self.image.topics[topic].topic_id, partition)] = offset

    async def scrape(self, after_s: float = 15.0) -> None:
        self.now_s += after_s
        await self.lag.refresh()

    def value(self, name: str, group: str = "g", topic: str = "orders") -> float | None:
        return self.registry.get_sample_value(name, {"group": group, "topic": topic})


async def test_the_lag_in_records_is_the_end_less_the_committed_offset() -> None:
    cluster = Cluster()
    cluster.committed = {"g": {"orders": {0: 40, 1: 7}}}
    cluster.end("orders", 0, 100)
    cluster.end("orders", 1, 5)  # retention and resets may leave an offset past the end
    await cluster.scrape()
    assert cluster.value("bmq_group_lag_records") == 60
    assert cluster.value("bmq_group_committed_offset") == 47
    assert cluster.registry.get_sample_value("bmq_group_lag_unknown_offsets") == 0


async def test_the_lag_in_seconds_is_the_age_of_the_first_record_that_is_left() -> None:
    cluster = Cluster()
    cluster.committed = {"g": {"orders": {0: 0}}}
    for end in (0, 0, 100, 200):  # at 115, 130, 145 and 160 s
        cluster.end("orders", 0, end)
        await cluster.scrape()
    assert cluster.value("bmq_group_lag_seconds") == 30.0  # offset 0 came after 130 s
    cluster.committed = {"g": {"orders": {0: 150}}}
    await cluster.scrape()  # at 175 s; offset 150 came half-way between 145 and 160 s
    assert cluster.value("bmq_group_lag_seconds") == 22.5
    cluster.committed = {"g": {"orders": {0: 200}}}
    await cluster.scrape()
    assert (cluster.value("bmq_group_lag_records"), cluster.value("bmq_group_lag_seconds")) == (0, 0)


async def test_a_backlog_from_before_the_first_scrape_is_at_least_as_old() -> None:
    cluster = Cluster()
    cluster.committed = {"g": {"orders": {0: 3}}}
    cluster.end("orders", 0, 10)
    await cluster.scrape()
    assert cluster.value("bmq_group_lag_seconds") == 0
    await cluster.scrape(after_s=20)
    assert cluster.value("bmq_group_lag_seconds") == 20


async def test_what_is_not_known_is_counted_and_not_guessed() -> None:
    cluster = Cluster()
    cluster.committed = {"g": {"orders": {0: 3, 1: 3}, "gone": {0: 5}}}
    cluster.end("orders", 0, 10)
    await cluster.scrape()
    assert cluster.value("bmq_group_lag_records") == 7
    assert cluster.value("bmq_group_lag_records", topic="gone") is None
    assert cluster.registry.get_sample_value("bmq_group_lag_unknown_offsets") == 1
    cluster.end("orders", 1, 4)
    await cluster.scrape()
    cluster.log_ends.clear()  # the owner does not answer: the last known end counts
    await cluster.scrape()
    assert cluster.value("bmq_group_lag_records") == 8


async def test_scrapes_one_after_the_other_ask_once() -> None:
    cluster = Cluster()
    cluster.committed = {"g": {"orders": {0: 3}}}
    await cluster.scrape()
    await cluster.scrape(after_s=0.5)
    assert len(cluster.asked) == 1


async def test_pairs_with_the_most_lag_get_series() -> None:
    cluster = Cluster(group_topics_max=1)
    cluster.committed = {"g": {"orders": {0: 90}}, "h": {"orders": {0: 10}}, "i": {"bills": {0: 0}}}
    cluster.end("orders", 0, 100)
    cluster.end("bills", 0, 20)
    await cluster.scrape()
    assert cluster.value("bmq_group_lag_records", "h") == 90
    assert cluster.value("bmq_group_lag_records", "g") is None
    assert cluster.value("bmq_group_lag_records", OTHERS, OTHERS) == 30


async def test_one_scrape_looks_at_a_bounded_number_of_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_lag, "OFFSETS_MAX", 3)
    cluster = Cluster()
    cluster.committed = {name: {"orders": {0: 1, 1: 1}} for name in ("g", "h")}
    cluster.end("orders", 0, 2)
    cluster.end("orders", 1, 2)
    await cluster.scrape()
    assert (cluster.value("bmq_group_lag_records", "g"), cluster.value("bmq_group_lag_records", "h")) == (2, None)
    assert cluster.registry.get_sample_value("bmq_group_lag_unknown_offsets") == 2

    assert cluster.looked == ["g"], "what there is no room for is not unpacked"


@pytest.mark.parametrize(
    ("topic", "offsets_max"), [("orders", 1_000), ("gone", 1_000), ("orders", 4)], ids=["known", "gone", "no room"]
)
async def test_others_get_their_turn_during_a_scrape(
    topic: str, offsets_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_lag, "_ROWS_PER_TURN", 10)
    monkeypatch.setattr(group_lag, "OFFSETS_MAX", offsets_max)
    cluster = Cluster()
    cluster.committed = {f"g{number}": {topic: {0: 1}} for number in range(100)}
    scrape = asyncio.ensure_future(cluster.scrape())
    turns = 0
    while not scrape.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 9


async def test_an_end_that_is_not_of_now_is_no_news_of_the_log() -> None:
    cluster = Cluster()
    cluster.committed = {"g": {"orders": {0: 0}}}
    cluster.end("orders", 0, 0)
    await cluster.scrape()  # at 115 s
    cluster.log_ends.clear()
    await cluster.scrape(after_s=7.0)
    await cluster.scrape(after_s=7.0)
    cluster.end("orders", 0, 10)
    await cluster.scrape(after_s=1.0)  # the record at 0 may have come at any time since 115 s
    assert cluster.value("bmq_group_lag_seconds") == 15.0


def test_a_history_is_bounded_and_keeps_its_oldest_point() -> None:
    history = EndHistory()
    for number in range(10 * POINTS_MAX):
        history.note(float(number), number * 10)
    points: Any = history._times_s
    assert len(points) <= POINTS_MAX
    assert history.behind_s(0, 1_000.0) == pytest.approx(1_000.0, abs=1.0)
    assert history.behind_s(6_300, 1_000.0) == pytest.approx(370.0, abs=1.0)
    history.forget_below(6_300)
    assert len(points) <= 10
    assert history.behind_s(6_300, 1_000.0) == pytest.approx(370.0, abs=1.0)


def test_an_end_that_goes_back_is_not_believed() -> None:
    history = EndHistory()
    history.note(1.0, 10)
    history.note(2.0, 5)
    history.note(3.0, 20)
    assert history.behind_s(15, 3.0) == 1.0


def test_the_rest_is_added_up() -> None:
    lags = {("g", str(number)): Lag(number, float(number), 1) for number in range(5)}
    assert bounded(lags, 2) == {
        ("g", "4"): Lag(4, 4.0, 1),
        ("g", "3"): Lag(3, 3.0, 1),
        (OTHERS, OTHERS): Lag(3, 2.0, 3),
    }
