"""The intervals that members are told: short while their group is not settled, and never too many of them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists, tuples

from bmq.coordinator.config import ConsumerConfig
from bmq.coordinator.consumer.pace import HeartbeatPace, is_settled
from tests.unit.coordinator.consumer.bench import Bench

pytestmark = pytest.mark.unit

CONFIG = ConsumerConfig(unsettled_heartbeat_interval_ms=1_000, unsettled_heartbeats_per_s_max=1_000)
USUAL_MS = CONFIG.heartbeat_interval_ms
ASSIGNMENT_MS = 1_000


def settled(bench: Bench, member_id: str) -> bool:
    assert bench.group is not None
    context = bench.context
    return is_settled(bench.group, member_id, context.terms, context.now)


def test_who_joins_first_is_told_to_come_back_soon() -> None:
    bench = Bench()
    bench.join("A")
    assert not settled(bench, "A")
    bench.now_ms += USUAL_MS - 1
    assert not settled(bench, "A")
    bench.now_ms += 1
    assert settled(bench, "A")


def test_a_rebalance_is_not_settled_however_long_it_takes() -> None:
    bench = Bench()
    bench.join("A")
    bench.join("B")
    bench.beat("A", 2)
    bench.now_ms += 10 * USUAL_MS
    assert not settled(bench, "A")  # it has to give something back
    assert not settled(bench, "B")  # for which B waits
    bench.beat("A", 2, {"t": [0]})
    assert settled(bench, "A")
    bench.beat("B", 3)
    assert settled(bench, "B")


def test_who_waits_for_the_next_assignment_is_not_settled() -> None:
    bench = Bench(config=ConsumerConfig(assignment_interval_ms=ASSIGNMENT_MS))
    bench.join("A")
    bench.now_ms += ASSIGNMENT_MS - 1
    bench.join("B")
    bench.now_ms += 10 * USUAL_MS
    assert not settled(bench, "B")
    assert not settled(bench, "A")


def test_who_waits_for_topics_by_a_pattern_is_not_settled() -> None:
    bench = Bench()
    bench.join("A", topics=None, regex="t.*")
    bench.now_ms += 10 * USUAL_MS
    assert not settled(bench, "A")
    bench.resolve(**{"t.*": ["t"]})
    assert not settled(bench, "A")
    bench.beat("A", 1)
    bench.now_ms += USUAL_MS
    assert settled(bench, "A")


def test_a_clock_that_was_set_back_settles_nobody_late() -> None:
    bench = Bench()
    bench.join("A")
    bench.now_ms -= 3_600_000
    assert settled(bench, "A")


def test_a_big_group_takes_turns() -> None:
    pace = HeartbeatPace(CONFIG)
    told = [pace.interval_ms(USUAL_MS, 0.0) for _ in range(10_000)]
    assert told[0] == 1_000 and told[500] == 1_500
    assert told[3_999:4_001] == [4_999, USUAL_MS]
    assert set(told[4_001:]) == {USUAL_MS}  # who finds no place before then comes when it would have come anyway
    assert pace.interval_ms(USUAL_MS, 4_000.0) == 1_000


def test_an_interval_that_is_short_stays() -> None:
    assert HeartbeatPace(CONFIG).interval_ms(200, 0.0) == 200


@given(lists(tuples(floats(0, 100), integers(1, 20_000)), max_size=300))
def test_no_second_has_more_early_heartbeats_than_are_allowed(asked: list[tuple[float, int]]) -> None:
    config = ConsumerConfig(unsettled_heartbeat_interval_ms=50, unsettled_heartbeats_per_s_max=100)
    pace = HeartbeatPace(config)
    loop_ms = 0.0
    early: list[float] = []
    for passed_ms, usual_ms in asked:
        loop_ms += passed_ms
        interval_ms = pace.interval_ms(usual_ms, loop_ms)
        assert min(50, usual_ms) <= interval_ms <= usual_ms
        if interval_ms < usual_ms:
            early.append(loop_ms + interval_ms)
    gap_ms = 1_000 / config.unsettled_heartbeats_per_s_max
    assert all(after - before > gap_ms - 2 for before, after in pairwise(early))
