"""A mirror goes on through what may pass, and ends where it should."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import pytest

from bmq.spark.jobs import mirror as mirror_module
from bmq.spark.jobs.cluster import Cluster, Topic
from bmq.spark.jobs.copy_settings import CopySettings
from bmq.spark.jobs.mirror import Mirror, MirrorRequest, mirror
from bmq.spark.jobs.mirrored_groups import GroupSync
from bmq.spark.jobs.outcome import BrokenOff, JobFailed
from bmq.spark.jobs.positions import Position
from bmq.spark.jobs.source import Source
from bmq.spark.jobs.steps import Progress, Unseen
from tests.unit.spark.jobs.test_copying import FakeCluster

pytestmark = pytest.mark.unit


class Rounds:
    """Stands in for a Mirror: each round copies so much, or fails."""

    def __init__(self, results: Sequence[int | Exception]) -> None:
        self._results = list(results)
        self.log: list[str] = []

    def round(self, progress: Progress) -> int:
        self.log.append("round")
        result = self._results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def forget(self) -> None:
        self.log.append("forget")

    def sync_groups(self) -> list[GroupSync]:
        self.log.append("groups")
        return [GroupSync("g", 1, in_use=False)]

    def renew_idle(self) -> int:
        return 0


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def now(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def run(rounds: Rounds, **more: Any) -> int:
    clock = Clock()
    return mirror(cast(Mirror, rounds), progress=Unseen(), now=clock.now, sleep=clock.sleep, **more)


def test_once_ends_when_a_round_found_nothing_and_groups_are_translated_behind_it() -> None:
    rounds = Rounds([7, 3, 0])
    assert run(rounds, is_once=True, groups_every_s=1e9) == 10
    assert rounds.log == ["round", "groups", "round", "round", "groups"]


def test_a_cluster_that_is_away_is_waited_for_and_everything_is_looked_up_again() -> None:
    rounds = Rounds([7, BrokenOff("away"), BrokenOff("away"), 3, 0])
    assert run(rounds, is_once=True) == 10
    assert rounds.log.count("forget") == 2


def test_it_gives_up_if_it_is_told_to() -> None:
    with pytest.raises(BrokenOff, match="away"):
        run(Rounds([BrokenOff("away")] * 99), give_up_after_s=60)


def test_what_does_not_pass_ends_it() -> None:
    rounds = Rounds([7, JobFailed("wrong")])
    with pytest.raises(JobFailed, match="wrong"):
        run(rounds)
    assert "forget" not in rounds.log


def test_without_once_it_looks_again_and_again() -> None:
    rounds = Rounds([0, 0, 0, 5, JobFailed("the test is over")])
    with pytest.raises(JobFailed):
        run(rounds, every_s=10, groups_every_s=15)
    assert rounds.log == ["round", "groups", "round", "round", "groups", "round", "round"]


def test_a_topic_is_not_mirrored_into_itself_under_another_address() -> None:
    topics = Topic("events", "id", 1), Topic("bmq-mirror-m-offsets", "other", 1)
    here, there = (cast(Cluster, FakeCluster(address, *topics)) for address in ("localhost:9092", "127.0.0.1:9092"))
    request = MirrorRequest("m", topics=("events",), groups="")
    with pytest.raises(JobFailed, match="into the same cluster needs a --prefix"):
        Mirror(cast(Any, None), Source("localhost:9092"), here, there, request).prepare()


def test_idle_positions_are_renewed_by_their_age_and_not_by_that_of_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduler may start it now and then, and a failure makes it look everything up again."""
    now_ms = time.time_ns() // 1_000_000
    positions = {
        number: Position(5, 0, -1, "id", 3, written_ms=now_ms - hours * 3_600_000)
        for number, hours in enumerate((1, 13, 100))
    }
    renewed: list[tuple[str, int]] = []

    class Copier:
        def __init__(self, settings: CopySettings, topic: str, partition: int) -> None:
            settings.of(topic)
            self._place = topic, partition

        def renew(self) -> None:
            renewed.append(self._place)

        def close(self) -> None:
            pass

    monkeypatch.setattr(mirror_module, "first_position", lambda *_: positions[0])
    monkeypatch.setattr(mirror_module, "claim_positions", lambda *_: positions)
    monkeypatch.setattr(mirror_module, "PartitionCopier", Copier)
    topics = {"events": Topic("events", "id", 3)}
    clock = Clock()
    here, there = (cast(Cluster, FakeCluster(address)) for address in ("a:1", "b:1"))
    request = MirrorRequest("m", topics=("events",), groups="")
    work = Mirror(cast(Any, None), Source("a:1"), here, there, request, now=clock.now)
    work._claim(topics, dict.fromkeys((("events", number) for number in range(3)), 0))
    assert work.renew_idle() == 2 and renewed == [("events", 1), ("events", 2)]
    assert work.renew_idle() == 0
    clock.sleep(20 * 3_600)
    work.forget()
    assert work.renew_idle() == 0, "the topic is not known now, or was deleted"


def test_a_mirror_leaves_out_what_mirrors_wrote() -> None:
    request = MirrorRequest("m", pattern=".*", prefix="eu.")
    assert request.takes("events")
    assert not request.takes("eu.events")
    assert not request.takes("bmq-mirror-m-offsets")
    assert request.target_of("events") == "eu.events"
