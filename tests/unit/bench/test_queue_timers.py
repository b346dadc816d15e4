"""Delayed records' benchmark: what its consumer calls wrong, and what is judged."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import Evidence
from bench.queues.timers.criteria import BEFORE_DELAY, DELAYED, INSERT, INSERT_BYTES, KILLED, OFF, UNDELAYED, judge
from bench.queues.timers.delayed import Acknowledged, Received, percentiles
from bench.queues.timers.due import PRODUCED_PER_S, hold_s
from bench.workloads import LoadFailed

pytestmark = pytest.mark.campaign("unit")


class Got:
    """A message of confluent_kafka."""

    def __init__(self, number: int, asked_ms: int, due_ms: int | None, offset: int = 0, at_ms: int = 0) -> None:
        self._value = b"%d %d ...." % (number, asked_ms)
        self._headers = (
            None if due_ms is None else [("bmq-timer-due", b"%d" % due_ms), ("bmq-timer-offset", b"%d" % offset)]
        )
        self._at_ms = at_ms or (due_ms or 0)

    def value(self) -> bytes:
        return self._value

    def headers(self) -> Any:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return 0, self._at_ms

    def partition(self) -> int:
        return 0


def received(*seen: tuple[Got, int]) -> Received:
    found = Received()
    for message, now_ms in seen:
        found.add(message, now_ms)
    return found


def wrong(found: Received, *due_ms: int) -> dict[str, int]:
    return {name: count for name, count in found.wrong(Acknowledged(dict(enumerate(due_ms)))).items() if count}


def test_what_came_in_order_once_and_in_time_is_right() -> None:
    found = received((Got(1, 5, 5, 7), 6), (Got(0, 5, 5, 8), 6), (Got(2, 3, None), 9))
    assert wrong(found, 5, 5, 3) == {}
    assert found.errors_ms == [1, 1]


def test_the_first_record_is_due_later_on_a_busy_machine() -> None:
    assert hold_s(PRODUCED_PER_S, 1_000, 0.01) == pytest.approx(1)
    assert hold_s(100_000, 20_000, 4.0) == pytest.approx(30)


def test_what_is_wrong_is_counted() -> None:
    assert wrong(received((Got(0, 5, 5), 9)), 5, 5) == {"lost": 1, "wrong": 1}
    assert wrong(received((Got(0, 5, 5, 1), 9), (Got(0, 5, 6, 2), 9)), 5) == {"doubled": 1, "wrong": 1}
    assert wrong(received((Got(0, 5, 5), 4)), 5) == {"early": 1, "wrong": 1}
    assert wrong(received((Got(0, 5, 5, at_ms=4), 9)), 5) == {"early": 1, "wrong": 1}
    assert wrong(received((Got(0, 5, 4, at_ms=9), 9)), 5) == {"early": 1, "wrong": 1}
    assert wrong(received((Got(0, 5, None), 4)), 5) == {"early": 1, "wrong": 1}
    assert wrong(received((Got(0, 5, 5, 9), 9), (Got(1, 5, 5, 8), 9)), 5, 5) == {"disordered": 1, "wrong": 1}


def test_percentiles_of_lateness() -> None:
    assert percentiles(range(1_000)) == {"error_p50_ms": 500, "error_p99_ms": 990, "error_max_ms": 999}
    with pytest.raises(LoadFailed, match="no record came"):
        percentiles([])


def judged(parts: dict[str, Any]) -> dict[str, Any]:
    return {one["id"]: one for one in judge(Evidence(parts, {}, {part: {"revision": "abc"} for part in parts}, {}))}


def test_the_worse_of_two_loads_counts() -> None:
    rates = dict(zip(INSERT_BYTES, (60, 40), strict=True))
    pair = {
        name: {DELAYED: {"records": rate, "seconds": 1}, UNDELAYED: {"records": 100, "seconds": 1}}
        for name, rate in rates.items()
    }
    loads = {"produce": {"value_bytes": 100, "seconds": 1}, "fetch": {"received_bytes": 100, "seconds": 1}}
    off = {"bmq": loads, BEFORE_DELAY: {**loads, "fetch": {"received_bytes": 101, "seconds": 1}}}
    found = judged({INSERT: {"wanted": 1, "pairs": [pair]}, OFF: {"wanted": 1, "pairs": [off]}})
    assert (found["timer_insert_ratio"]["value"], found["timer_insert_ratio"]["holds"]) == (0.4, False)
    assert found["timer_insert_1k_ratio"]["value"] == 0.6 and "holds" not in found["timer_insert_1k_ratio"]
    assert found["delay_off_cost"]["value"] == pytest.approx(100 / 101) and found["delay_off_cost"]["holds"]
    assert found["timers_lost_doubled_early"]["value"] is None


def test_one_lost_record_fails_the_kills() -> None:
    rounds = [{"wrong": 0}, {"wrong": 1}]
    found = judged({KILLED: {"bmq": {"wanted": 2, "rounds": rounds}}})
    assert (found["timers_lost_doubled_early"]["value"], found["timers_lost_doubled_early"]["holds"]) == (1, False)
