"""A lane brings each record of its spool to the cluster once, whatever fails, and refused topics hold up no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.databus.lanes.lane import Lane, LaneLimits
from bmq.databus.lanes.parking import Parking
from bmq.databus.lanes.transactions import SendFailed, TopicRefusal, TopicsRefused
from bmq.databus.spool.frame import encoded_frame, record_fields
from bmq.databus.spool.spool import Spool
from testing.processes import eventually
from tests.unit.databus.agents import Cluster, FakeTransactions
from tests.unit.databus.spools import NOW_MS, fill, frame, numbers_of, open_spool

pytestmark = pytest.mark.unit

WAIT_S = 20
Maker = Callable[..., "Made"]


class Made:
    """A lane with its parking, over a directory that several may use one after the other."""

    def __init__(self, directory: Path, cluster: Cluster, limits: LaneLimits | None = None) -> None:
        self.topics: dict[str, str] = {}
        self.spool = open_spool(directory)
        self.parking = Parking(
            directory,
            open_spool,
            lambda topic: FakeTransactions(cluster, f"parked.{topic}"),
            self.topics.__setitem__,
        )
        limits = limits or LaneLimits(linger_s=0.0)
        self.lane = Lane("lane", self.spool, FakeTransactions(cluster, "lane"), self.parking, limits)

    def start(self) -> None:
        self.parking.start()
        self.lane.start()

    def stop(self) -> None:
        parked = list(self.parking.lanes.values())
        self.parking.stop()
        self.lane.stop()
        for each in [self.lane, *parked]:
            assert each.join(WAIT_S)
        self.spool.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Maker]:
    made: list[Made] = []

    def maker(cluster: Cluster, limits: LaneLimits | None = None, *, is_started: bool = True) -> Made:
        one = Made(tmp_path / "lane", cluster, limits)
        made.append(one)
        if is_started:
            one.start()
        return one

    yield maker
    for one in made:
        one.stop()


def numbers(cluster: Cluster, topic: str = "t") -> list[int]:
    return [record.number for record in cluster.landed if record.topic == topic]


def put(spool: Spool, number: int, topic: str, value: bytes = b"value") -> None:
    spool.append(frame(number, value, topic=topic), number, number, {"c": 1})


def test_records_arrive_once_over_faults_before_and_after_commits(make: Maker) -> None:
    cluster = Cluster()
    cluster.faults = ["", "after", "before", "after", "", "before", "before", "after"]
    made = make(cluster, LaneLimits(linger_s=0.0, transaction_records=7))
    fill(made.spool, range(100, 200))
    made.lane.notify()
    eventually(lambda: made.lane.is_empty, WAIT_S, "all is committed", 0.005)
    assert numbers(cluster) == list(range(100, 200))
    assert made.lane.produced == {"c": sum(made.lane.produced.values())}


@settings(max_examples=12)
@given(faults=st.lists(st.sampled_from(["", "before", "after"]), max_size=6), at_once=st.integers(1, 9))
def test_a_process_that_ends_anywhere_loses_and_doubles_nothing(
    faults: list[str], at_once: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each process does one try and is gone; what is on disk and in the cluster stays."""
    directory = tmp_path_factory.mktemp("lane")
    cluster = Cluster()
    first = open_spool(directory)
    fill(first, range(40))
    for fault in [*faults, *[""] * 40]:
        cluster.faults = [fault]
        made = Made(directory, cluster, LaneLimits(linger_s=0.0, transaction_records=at_once))
        position = max(cluster.positions.get("lane", 0), made.spool.position)
        reader = made.lane._reader
        reader.seek(position)
        records = reader.read(1 << 20, at_once)
        if not records:
            break
        transactions = FakeTransactions(cluster, "lane")
        transactions.start(1_000)
        try:
            transactions.add(records)
            transactions.commit(records[-1].number + 1)
        except SendFailed:  # the process is killed before it writes the position
            continue
        if at_once % 2:
            made.spool.release(records[-1].number + 1)
    assert numbers(cluster) == list(range(40))


def test_a_cluster_that_comes_back_gets_everything(make: Maker) -> None:
    cluster = Cluster()
    cluster.is_away = True
    made = make(cluster)
    fill(made.spool, range(50))
    made.lane.notify()
    eventually(lambda: "away" in made.lane.trouble, WAIT_S, "the lane says why it waits", 0.005)
    cluster.is_away = False
    eventually(lambda: made.lane.is_empty, WAIT_S, "all is committed", 0.005)
    assert numbers(cluster) == list(range(50))
    assert made.lane.trouble == ""


def test_a_position_of_the_cluster_that_is_ahead_of_the_disk_counts(make: Maker) -> None:
    """The process was killed between the commit and its note on disk."""
    cluster = Cluster()
    cluster.positions["lane"] = 30
    made = make(cluster, is_started=False)
    fill(made.spool, range(50))
    made.start()
    eventually(lambda: made.lane.is_empty, WAIT_S, "all is committed", 0.005)
    assert numbers(cluster) == list(range(30, 50))


def test_a_refused_topic_waits_and_others_go_on(make: Maker) -> None:
    cluster = Cluster()
    cluster.refused["gone"] = TopicRefusal("the topic gone does not exist")
    made = make(cluster, is_started=False)
    for number in range(30):
        put(made.spool, number, "gone" if number % 3 == 0 else "t")
    made.start()
    eventually(lambda: made.lane.is_empty, WAIT_S, "the lane is through", 0.005)
    assert numbers(cluster) == [number for number in range(30) if number % 3]
    eventually(lambda: made.topics.get("gone"), WAIT_S, "the refusal is told", 0.005)
    assert made.topics["gone"] == "the topic gone does not exist"
    made.stop()

    cluster.refused.clear()
    again = make(cluster)
    put(again.spool, 1_000, "gone")
    again.lane.notify()
    eventually(lambda: again.lane.is_empty and again.parking.spools["gone"].position > 27, WAIT_S, "it lands", 0.005)
    eventually(lambda: 1_000 in numbers(cluster, "gone"), WAIT_S, "the later record lands", 0.005)
    assert numbers(cluster, "gone") == [*range(0, 30, 3), 1_000]


def test_records_that_are_parked_already_are_not_parked_or_sent_again(make: Maker) -> None:
    """The process was killed after records were parked and produced from there, and before the lane's commit."""
    cluster = Cluster()
    cluster.refused["gone"] = TopicRefusal("the topic gone does not exist")
    made = make(cluster, is_started=False)
    for number in range(10):
        put(made.spool, number, "gone" if number % 2 else "t")
    made.start()
    eventually(lambda: made.lane.is_empty, WAIT_S, "the lane is through", 0.005)
    made.stop()
    cluster.refused.clear()
    second = make(cluster)
    eventually(lambda: numbers(cluster, "gone") == [1, 3, 5, 7, 9], WAIT_S, "the parked records land", 0.005)
    second.stop()
    cluster.positions["lane"] = 0
    (made.spool.directory / "position").unlink()
    before = len(numbers(cluster))
    third = make(cluster, is_started=False)
    fill(third.spool, range(20, 21))  # numbers below are of files that are deleted
    for number in range(21, 24):
        put(third.spool, number, "t")
    third.start()
    eventually(lambda: third.lane.is_empty, WAIT_S, "the lane is through", 0.005)
    assert numbers(cluster, "gone") == [1, 3, 5, 7, 9]
    assert len(numbers(cluster)) >= before + 4


def test_a_record_that_the_cluster_takes_in_no_company_is_set_aside(make: Maker) -> None:
    cluster = Cluster()
    cluster.refused_values.add(b"poison")
    made = make(cluster, is_started=False)
    for number in range(12):
        put(made.spool, number, "t", b"poison" if number == 5 else b"good")
    made.start()
    eventually(lambda: made.lane.is_empty, WAIT_S, "the lane is through", 0.005)
    wanted = [number for number in range(12) if number != 5]
    eventually(lambda: numbers(cluster) == wanted, WAIT_S, "the others land", 0.005)
    refused = made.parking.refused_records["t"]
    eventually(lambda: refused.count == 1, WAIT_S, "it is counted", 0.005)
    assert refused.spool.last == 5


def test_a_stop_leaves_the_rest_on_disk(make: Maker) -> None:
    cluster = Cluster()
    cluster.is_away = True
    made = make(cluster)
    fill(made.spool, range(10))
    made.stop()
    cluster.is_away = False
    again = make(cluster)
    eventually(lambda: again.lane.is_empty, WAIT_S, "all is committed", 0.005)
    assert numbers(cluster) == list(range(10))


def test_a_tail_that_cannot_be_read_holds_up_nothing(make: Maker) -> None:
    cluster = Cluster()
    made = make(cluster, is_started=False)
    fill(made.spool, range(5))
    fields = record_fields(None, b"v", b"\x00\x01\x00\x01\xff\xff\xff\xff\xff")
    made.spool.append(encoded_frame(5, NOW_MS, b"t", b"c", fields), 5, 5, {"c": 1})
    made.start()
    eventually(lambda: made.lane.is_empty, WAIT_S, "the lane is through", 0.005)
    assert numbers(cluster) == list(range(5))


def test_only_topics_that_wait_count_for_the_limit(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.databus.lanes.parking.PARKED_TOPICS_MAX", 1)
    cluster = Cluster()
    made = make(cluster)
    for number, topic in enumerate(("a", "b", "d")):
        cluster.refused_values = {b"%d" % number}
        put(made.spool, number, topic, b"%d" % number)
        made.lane.notify()
        eventually(lambda: made.lane.is_empty and not made.parking.waiting(), WAIT_S, "it is through", 0.005)
    assert set(made.parking.spools) == {"a", "b", "d"}
    cluster.refused = {topic: TopicRefusal(f"no {topic}") for topic in "ab"}
    put(made.spool, 10, "a")
    put(made.spool, 11, "b")
    made.lane.notify()
    eventually(lambda: "more than 1 topics" in made.lane.trouble, WAIT_S, "the limit holds", 0.005)


def test_refused_records_are_bounded(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.databus.lanes.parking.REFUSED_BYTES_MAX", 10_000)
    cluster = Cluster()
    cluster.refused_values.add(b"x" * 1_000)
    made = make(cluster, is_started=False)
    fill(made.spool, range(30), b"x" * 1_000)
    made.start()
    eventually(lambda: made.parking.refused_records.keys() == {"t"}, WAIT_S, "it is parked", 0.005)
    refused = made.parking.refused_records["t"]
    eventually(lambda: refused.count == 30 and not made.parking.waiting(), WAIT_S, "all are refused", 0.005)
    kept = numbers_of(refused.spool)
    assert refused.spool.bytes_used <= 10_000
    assert kept == list(range(30 - len(kept), 30))
    assert refused.dropped == 30 - len(kept)


def test_a_topic_whose_records_made_room_is_asked_again(make: Maker) -> None:
    """They were dropped after the refusal, and before they were parked."""
    cluster = Cluster()
    made = make(cluster, is_started=False)
    made.parking.refused(TopicsRefused({"gone": TopicRefusal("the topic gone does not exist")}), 0, None)
    assert made.topics == {"gone": "the topic gone does not exist"}
    fill(made.spool, range(3))
    made.start()
    eventually(lambda: made.lane.is_empty and made.topics == {"gone": ""}, WAIT_S, "it is asked again", 0.005)
    put(made.spool, 3, "gone")
    made.lane.notify()
    eventually(lambda: numbers(cluster, "gone") == [3], WAIT_S, "the record lands", 0.005)
