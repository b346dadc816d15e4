"""What the failover's measure makes of the times of acknowledgements."""

from __future__ import annotations

import pytest

from bench.micro_failover import gaps_of, summary, timeline

pytestmark = pytest.mark.campaign("unit")


def test_gaps_are_told_apart_by_who_died() -> None:
    times = {0: [0.0, 1.0, 2.0, 3.0], 1: [0.0, 1.5, 3.0], 2: [0.5, 3.5], 3: [0.5]}
    gaps = gaps_of(times, {0: 1, 1: 1, 2: 7, 3: 7}, victim=7, begin=1.0, end=4.0)
    assert gaps["living p50"] == gaps["living longest"] == 1.5
    assert gaps["dead longest"] == 3.5, "one that did not come back lasts to the end"
    assert gaps["dead p50"] == 3.5 and gaps["all longest"] == 3.5
    assert gaps["all p50"] == 3.0


def test_a_node_without_partitions_has_no_gaps() -> None:
    gaps = gaps_of({0: [0.0, 1.0]}, {0: 1}, victim=7, begin=0.5, end=1.0)
    assert "dead p50" not in gaps and gaps["all longest"] == 1.0


def test_rounds_are_summed_up() -> None:
    assert summary([{"all p50": 3.0}, {"all p50": 1.0}, {"all p50": 2.0}]) == {"all p50": (1.0, 2.0, 3.0)}
    assert summary([]) == {}


def test_a_timeline_counts_what_lies_in_it() -> None:
    assert timeline([[9.9, 10.0, 10.3, 10.9], [10.31, 11.0]], began=10.0, seconds=1.0) == [1, 2, 0, 1, 0]
