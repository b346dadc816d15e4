"""A mirror goes on through what may pass, and ends where it should."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from bmq.spark.jobs.steps import Progress, SilentProgress
from tests.fakes.copied_clusters import FakeCluster, fake_copies

__all__ = ["fake_copies"]
pytestmark = pytest.mark.unit

StartMirror = Callable[..., Mirror]


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
    return mirror(cast(Mirror, rounds), progress=SilentProgress(), now=clock.now, sleep=clock.sleep, **more)


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


def test_a_topic_is_not_mirrored_into_itself_under_another_address(fake_copies: StartMirror) -> None:
    here = FakeCluster("localhost:9092", events=3)
    there = FakeCluster("127.0.0.1:9092")
    there.topics_here = here.topics_here
    with pytest.raises(JobFailed, match="into the same cluster needs a --prefix"):
        fake_copies(here, there, name="m", topics=("events",)).prepare()


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
    work._claim(topics, topics, dict.fromkeys((("events", number) for number in range(3)), 0))
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


# --- topics that are made again, and logs that are cut


def position_of(there: FakeCluster, topic: str = "events") -> int:
    return there.positions["bmq-mirror-m", topic, 0][1].offset


def test_a_target_that_was_made_again_gets_everything_again(fake_copies: StartMirror) -> None:
    here, there = FakeCluster("a:1", events=100), FakeCluster("b:1")
    work = fake_copies(here, there, name="m", topics=("events",))
    assert work.round(SilentProgress()) == 100
    first_id = work._copies["events"].target_topic_id
    there.delete_topic("events")
    there.make_topic("events", 1, {})
    here.ends["events", 0] = 110
    assert work.round(SilentProgress()) == 110
    assert work._copies["events"].ids == (here.topics_here["events"].topic_id, there.topics_here["events"].topic_id)
    assert work._copies["events"].target_topic_id != first_id
    there.delete_topic("events")  # and nobody makes it
    assert fake_copies(here, there, name="m", topics=("events",)).round(SilentProgress()) == 110


def test_positions_of_an_earlier_target_are_refused(fake_copies: StartMirror) -> None:
    here, there = FakeCluster("a:1", events=100), FakeCluster("b:1")
    running = fake_copies(here, there, name="m", topics=("events",))
    running.round(SilentProgress())
    there.delete_topic("events", keeps_positions=True)
    there.make_topic("events", 1, {})
    for work in (running, fake_copies(here, there, name="m", topics=("events",))):
        with pytest.raises(JobFailed, match="'events' of the target was deleted and made again"):
            work.round(SilentProgress())


def test_a_source_that_was_made_again_is_refused(fake_copies: StartMirror) -> None:
    here, there = FakeCluster("a:1", events=100), FakeCluster("b:1")
    running = fake_copies(here, there, name="m", topics=("events",))
    running.round(SilentProgress())
    here.delete_topic("events")
    here.make_topic("events", 1, {})
    here.ends["events", 0] = 150
    for work in (running, fake_copies(here, there, name="m", topics=("events",))):
        with pytest.raises(JobFailed, match="'events' was deleted and made again since its copy began"):
            work.round(SilentProgress())


def test_a_source_that_lost_records_is_told_and_followed_only_if_asked(fake_copies: StartMirror) -> None:
    """Otherwise what is written up to the old position would never be copied."""
    here, there = FakeCluster("a:1", events=1_000), FakeCluster("b:1")
    work = fake_copies(here, there, name="m", topics=("events",))
    assert work.round(SilentProgress()) == 1_000
    here.ends["events", 0] = 900
    with pytest.raises(JobFailed, match=r"events-0 ends at 900, and was copied up to 1000.*--skip-deleted"):
        work.round(SilentProgress())
    assert position_of(there) == 1_000
    follows = fake_copies(here, there, name="m", topics=("events",), skips_deleted=True)
    assert follows.round(SilentProgress()) == 0
    assert position_of(there) == 900
    here.ends["events", 0] = 1_100
    assert follows.round(SilentProgress()) == 200
    assert follows.round(SilentProgress()) == 0 and position_of(there) == 1_100


# --- mirrors that feed each other


def rounds(*mirrors: Mirror) -> None:
    for _ in range(6):
        for each in mirrors:
            each.round(SilentProgress())


def shown(cluster: FakeCluster) -> set[str]:
    return {name for name in cluster.topics_here if not name.startswith("bmq-")}


def test_two_mirrors_do_not_feed_each_other(fake_copies: StartMirror) -> None:
    a, b = FakeCluster("a:1", loop=1), FakeCluster("b:1", loop=1)
    pattern = r"(.*\.)?loop"
    to_b = fake_copies(a, b, name="to-b", prefix="a.", pattern=pattern)
    to_a = fake_copies(b, a, name="to-a", prefix="b.", pattern=pattern)
    rounds(to_b, to_a)
    assert shown(a) == {"loop", "b.loop"} and shown(b) == {"loop", "a.loop"}
    a.ends["loop", 0] = 5
    rounds(fake_copies(b, a, name="to-a", prefix="b.", pattern=pattern), to_b)
    assert shown(a) == {"loop", "b.loop"} and shown(b) == {"loop", "a.loop"}
    assert b.ends["a.loop", 0] == 5 + 2


def test_a_ring_of_mirrors_ends_where_it_began(fake_copies: StartMirror) -> None:
    clusters = a, b, c = [FakeCluster(f"{name}:1") for name in "abc"]
    a.make_topic("loop", 1, {})
    mirrors = [
        fake_copies(
            here, there, name=f"{here.address[0]}-to-{there.address[0]}", prefix=f"{here.address[0]}.", pattern=".*"
        )
        for here, there in ((a, b), (b, c), (c, a))
    ]
    rounds(*mirrors)
    a.ends["loop", 0] = 7
    rounds(*mirrors)
    assert [shown(each) for each in clusters] == [{"loop"}, {"a.loop"}, {"b.a.loop"}]
    assert c.positions["bmq-mirror-b-to-c", "a.loop", 0][1].origins == ("a:1", "b:1")


def test_a_topic_that_a_mirror_is_just_making_is_looked_at_again_before_its_first_record(
    fake_copies: StartMirror,
) -> None:
    a, b = FakeCluster("a:1", loop=3), FakeCluster("b:1")
    b.make_topic("a.loop", 1, {})  # the other mirror has not claimed its positions yet
    to_a = fake_copies(b, a, name="to-a", prefix="b.", pattern=".*")
    to_a.round(SilentProgress())
    rounds(fake_copies(a, b, name="to-b", prefix="a.", topics=("loop",)), to_a)
    assert a.ends["b.a.loop", 0] == 0, "nothing came back"


def test_a_topic_that_is_named_is_mirrored_wherever_it_came_from(fake_copies: StartMirror) -> None:
    a, b = FakeCluster("a:1", loop=3), FakeCluster("b:1")
    rounds(fake_copies(a, b, name="to-b", prefix="a.", topics=("loop",)))
    rounds(fake_copies(b, a, name="to-a", prefix="b.", topics=("a.loop",)))
    assert shown(a) == {"loop", "b.a.loop"}


def test_groups_are_listed_only_for_topics_that_are_new(
    fake_copies: StartMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = FakeCluster("a:1", one=3), FakeCluster("b:1")
    a.make_topic("empty", 1, {})
    looks = 0

    def committed(groups: object) -> list[object]:
        nonlocal looks
        looks += 1
        return []

    monkeypatch.setattr(a, "committed", committed)
    work = fake_copies(a, b, name="m", pattern=".*")
    rounds(work)
    assert looks == 1
    a.ends["empty", 0] = 2
    rounds(work)
    assert looks == 2
