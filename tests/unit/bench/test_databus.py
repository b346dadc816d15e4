"""What bench/databus makes of its samples."""

from __future__ import annotations

import pytest

from bench.databus.__main__ import BOUNDS, figures

pytestmark = pytest.mark.campaign("unit")


def test_figures_are_for_the_same_rate_of_records() -> None:
    agent = {
        "requests": 100.0,
        "server_cpu_s": 1.0,
        "agent_cpu_s": 3.0,
        "load_cpu_s": 9.0,
        "seconds": 10.0,
        "p99_ms": 1.5,
    }
    producers = {"requests": 1_000.0, "server_cpu_s": 1.0, "agent_cpu_s": 0.0, "load_cpu_s": 3.0, "seconds": 5.0}
    rest = {"agent_away": {"p99_ms": 1.0}, "changes": {"seconds": [0.1, 0.4], "longest_s": 0.4}}
    found = figures({"agent": agent, "producers": producers, **rest}, 1_000, 100)
    assert found["requests_ratio"] == pytest.approx(10 / 2_000)
    assert found["cpu_ratio"] == pytest.approx(0.4 / 8)
    assert (found["p99_up_ms"], found["p99_away_ms"]) == (1.5, 1.0)
    assert found["change_s"] == 0.4
    assert found.keys() == BOUNDS.keys()
