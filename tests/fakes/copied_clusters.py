"""Clusters as copies see them: topics with ids and ends, and positions, which brokers forget with the target topic."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final

import pytest
from confluent_kafka import TopicPartition

from bmq.spark.jobs import mirror
from bmq.spark.jobs.cluster import Partition, Topic
from bmq.spark.jobs.copy_settings import CopySettings
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.positions import CopyNames, Position
from bmq.spark.jobs.ranges import Step

_ids = itertools.count(1)
_clusters: Final[dict[str, FakeCluster]] = {}


class FakeCluster:
    """`address` is also the cluster's id."""

    def __init__(self, address: str, **counts: int) -> None:
        self.address = address
        self.config = {"bootstrap.servers": address}
        self.ends: dict[Partition, int] = {}
        self.starts: dict[Partition, int] = {}
        self.topics_here: dict[str, Topic] = {}
        self.positions: dict[tuple[str, str, int], tuple[str, Position]] = {}
        _clusters[address] = self
        for name, count in counts.items():
            self.make_topic(name, 1, {})
            self.ends[name, 0] = count

    def cluster_id(self) -> str:
        return self.address

    def topic_names(self, *, pattern: str) -> list[str]:
        return sorted(name for name in self.topics_here if re.fullmatch(pattern, name))

    def find_topics(self, names: Iterable[str]) -> dict[str, Topic]:
        return {name: self.topics_here[name] for name in names if name in self.topics_here}

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        found = self.find_topics(wanted := list(names))
        if len(found) < len(set(wanted)):
            raise JobFailed("no such topic")
        return found

    def make_topic(self, name: str, partition_count: int, configs: Mapping[str, str]) -> None:
        self.topics_here[name] = Topic(name, f"id-{next(_ids)}", partition_count)
        for number in range(partition_count):
            self.ends[name, number] = self.starts[name, number] = 0

    def make_topic_like(self, name: str, source: FakeCluster, like: str, partition_count: int) -> None:
        self.make_topic(name, partition_count, {})

    def delete_topic(self, name: str, *, keeps_positions: bool = False) -> None:
        del self.topics_here[name]
        if not keeps_positions:
            self.positions = {key: each for key, each in self.positions.items() if each[0] != name}

    def earliest(self, topics: Iterable[Topic]) -> dict[Partition, int]:
        return {(topic.name, n): self.starts[topic.name, n] for topic in topics for n in range(topic.partition_count)}

    def committed_ends(self, topics: Iterable[Topic]) -> dict[Partition, int]:
        return {(topic.name, n): self.ends[topic.name, n] for topic in topics for n in range(topic.partition_count)}

    def group_names(self, prefix: str) -> list[str]:
        return sorted({f"{copy}.{topic}.0" for copy, topic, _ in self.positions if copy.startswith(prefix)})

    def committed(self, groups: Sequence[str]) -> list[TopicPartition]:
        return [
            TopicPartition(target, number, position.offset, metadata=position.metadata)
            for (copy, topic, number), (target, position) in self.positions.items()
            if f"{copy}.{topic}.0" in groups
        ]


def _of(config: Mapping[str, str]) -> FakeCluster:
    return _clusters[config["bootstrap.servers"]]


def _first_position(config: Mapping[str, str], copy: str, source_topic: str, target_topic: str) -> Position | None:
    found = _of(config).positions.get((copy, source_topic, 0))
    return None if found is None else found[1]


def _claim(config: Mapping[str, str], names: CopyNames, wanted: Mapping[int, Position]) -> dict[int, Position]:
    kept = _of(config).positions
    for number, position in wanted.items():
        kept.setdefault((names.copy, names.source_topic, number), (names.target_topic, position))
    return {number: kept[names.copy, names.source_topic, number][1] for number in wanted}


class FakeCopier:
    def __init__(self, settings: CopySettings, topic: str, partition: int) -> None:
        self._cluster, self._settings, self._copy = _of(settings.config), settings, settings.of(topic)
        self._key = settings.copy, topic, partition
        self.position = replace(
            self._cluster.positions[self._key][1],
            target_topic_id=self._copy.target_topic_id,
            origins=self._copy.origins,
        )

    def _commit(self, offset: int) -> None:
        self.position = replace(self.position, offset=offset)
        self._cluster.positions[self._key] = self._copy.target_topic, self.position

    def move_back(self, offset: int) -> None:
        self._commit(offset)

    def finish(self) -> None:
        self._commit(max(self.position.offset, self._settings.end_of(*self._key[1:])))

    def close(self) -> None:
        pass


def _copy_step(route: Any, settings: CopySettings, step: Step) -> None:
    for each in step:
        copier = FakeCopier(settings.up_to(step), each.topic, each.partition)
        assert copier.position.offset == each.start_offset
        route.target.ends[settings.of(each.topic).target_topic, each.partition] += (
            each.offset_count + 1
        )  # and the marker
        copier.finish()


@pytest.fixture
def fake_copies(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Mirrors and copies between FakeClusters; gives how to start a mirror, with its request's fields."""
    monkeypatch.setattr(mirror, "first_position", _first_position)
    monkeypatch.setattr(mirror, "claim_positions", _claim)
    monkeypatch.setattr(mirror, "PartitionCopier", FakeCopier)
    monkeypatch.setattr(mirror, "copy_step", _copy_step)

    def start(here: FakeCluster, there: FakeCluster, **request: Any) -> mirror.Mirror:
        given: Any = SimpleNamespace()
        clusters: Any = here, there
        return mirror.Mirror(given, given, *clusters, mirror.MirrorRequest(groups="", **request))  # type: ignore[arg-type,call-arg]

    return start
