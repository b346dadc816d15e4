"""All lanes of an agent: which there are, what channels make of them, how they stop, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from bmq.databus.agent_metrics import AgentMetrics
from bmq.databus.intake import Intake
from bmq.databus.intake_record import NewRecord
from bmq.databus.lanes.lane_set import LaneSet
from bmq.databus.lanes.transactions import TopicRefusal
from bmq.databus.record_fields import NO_HEADERS
from bmq.databus.rules import LaneKey
from bmq.databus.spool.spool import SpoolBudget
from testing.processes import eventually
from tests.unit.databus.agents import Asking, Cluster, FakeTransactions, channel, channels
from tests.unit.databus.spools import NOW_MS, frame

pytestmark = pytest.mark.unit

WAIT_S = 20
LZ4, DROPPABLE, ZSTD = LaneKey("lz4", False), LaneKey("lz4", True), LaneKey("zstd", False)
Maker = Callable[..., LaneSet]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def make(tmp_path: Path, cluster: Cluster) -> Iterator[Maker]:
    made: list[LaneSet] = []

    def maker(budget: SpoolBudget | None = None) -> LaneSet:
        one = LaneSet(
            tmp_path,
            budget or SpoolBudget(1 << 30),
            lambda name, _: FakeTransactions(cluster, name),
            lambda name, _: FakeTransactions(cluster, name),
            first_number=1_000,
            segment_bytes=4_096,
            is_synced=False,
        )
        made.append(one)
        return one

    yield maker
    for one in made:
        one.stop(0)
        lanes = [*one.lanes.values(), *(lane for parking in one.parkings.values() for lane in parking.lanes.values())]
        assert all(lane.join(WAIT_S) for lane in lanes)


def put(lanes: LaneSet, key: LaneKey, number: int, topic: str = "t") -> None:
    lane = lanes.lane_of(key)
    lane.spool.append(frame(number, topic=topic), number, number, {"c": 1})
    lane.notify()


def test_lanes_of_a_former_process_are_there_and_others_are_made_when_needed(make: Maker) -> None:
    first = make()
    assert first.lanes == {}
    put(first, LZ4, 1_000)
    put(first, DROPPABLE, 1_000)
    again = make()
    assert set(again.lanes) == {LZ4, DROPPABLE}
    assert again.lane_of(LZ4).next_number == 1_000
    assert not again.is_empty


def test_batching_follows_the_channels_of_a_lane(make: Maker) -> None:
    lanes = make()
    lane = lanes.lane_of(LZ4)
    lanes.use(
        channels(
            channel("a", linger_ms=500, batch_bytes=10_000),
            channel("b", linger_ms=300, batch_bytes=5_000),
            channel("z", linger_ms=0, compression="zstd"),
        )
    )
    assert (lane.limits.linger_s, lane.limits.batch_bytes) == (0.3, 5_000)
    assert lanes.lane_of(ZSTD).limits.linger_s == 0.02


def test_a_stop_produces_what_is_there_without_waiting_for_more(make: Maker, cluster: Cluster) -> None:
    lanes = make()
    lanes.use(channels(channel(linger_ms=60_000)))
    lanes.lane_of(LZ4)
    lanes.start()
    put(lanes, LZ4, 1_000)
    put(lanes, ZSTD, 1_000)
    assert lanes.stop(WAIT_S)
    assert len(cluster.landed) == 2


def test_a_stop_without_the_cluster_ends_and_says_so(make: Maker, cluster: Cluster) -> None:
    cluster.is_away = True
    lanes = make()
    lanes.lane_of(LZ4)
    lanes.start()
    put(lanes, LZ4, 1_000)
    assert not lanes.stop(0.05)


def test_a_refused_topic_is_told_and_forgotten_once_it_takes_records(make: Maker, cluster: Cluster) -> None:
    cluster.refused["gone"] = TopicRefusal("the topic gone does not exist")
    lanes = make()
    put(lanes, LZ4, 1_000, "gone")
    lanes.start()
    eventually(lambda: lanes.refused_topics == {"gone": "the topic gone does not exist"}, WAIT_S, "it is told", 0.005)
    lanes.stop(0)
    cluster.refused.clear()
    again = make()
    again.start()
    eventually(lambda: len(cluster.landed) == 1, WAIT_S, "the record lands", 0.005)
    eventually(lambda: again.refused_topics == {}, WAIT_S, "it is forgotten", 0.005)


def test_parked_records_are_not_produced(make: Maker, cluster: Cluster) -> None:
    cluster.refused["gone"] = TopicRefusal("the topic gone does not exist")
    lanes = make()
    put(lanes, LZ4, 1_000, "gone")
    lanes.start()
    eventually(lambda: lanes.lanes[LZ4].is_empty, WAIT_S, "the lane is through", 0.005)
    assert not lanes.is_empty
    assert not lanes.stop(0.05)


async def test_metrics_tell_of_channels_lanes_and_the_spool(make: Maker, cluster: Cluster) -> None:
    budget = SpoolBudget(1 << 20)
    lanes = make(budget)
    lanes.start()
    intake = Intake(lanes.lane_of, budget, now_ms=lambda: NOW_MS, now_s=lambda: 0.0, dice=lambda: 0.0)
    intake.use(channels(channel(max_record_bytes=10), version=7))
    for value in (b"1", b"22", b"x" * 11):
        intake.offer(Asking(), 0, b"c", NewRecord(-1, None, value, NO_HEADERS))
    intake.offer(Asking(), 0, b"none", NewRecord(-1, None, b"", NO_HEADERS))
    await intake.drained()
    eventually(lambda: len(cluster.landed) == 2, WAIT_S, "the records land", 0.005)
    registry = CollectorRegistry()
    registry.register(AgentMetrics(intake, lanes, budget, None, lambda: None))

    def told(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"bmq_databus_{name}", labels)

    eventually(lambda: told("produced_records_total", channel="c") == 2, WAIT_S, "they are counted", 0.005)
    assert told("accepted_records_total", channel="c") == 2
    assert told("accepted_bytes_total", channel="c") == 3
    assert told("refused_records_total", channel="c", code="RECORD_TOO_LARGE") == 1
    assert told("refused_records_total", channel="", code="UNKNOWN_CHANNEL") == 1
    assert told("lane_producing", lane="lz4") == 1
    assert told("transactions_total", lane="lz4") == cluster.commits
    assert told("channels_version") == 7
    assert told("spool_bytes") == budget.used > 0
    assert told("parked_topics", lane="lz4") == 0
