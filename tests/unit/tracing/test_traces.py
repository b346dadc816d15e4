"""Which requests are sampled."""

from __future__ import annotations

from random import Random

import pytest

from bmq.tracing.trace import TraceContext
from bmq.tracing.traces import OPEN_MAX, Traces
from tests.unit.tracing.ended_traces import NOON_NS, EndedTraces

pytestmark = pytest.mark.unit


class Time:
    """The event loop's time."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def traces_of(ratio: float, per_s_max: int = 10_000, time: Time | None = None) -> Traces:
    return Traces(ratio, per_s_max, Random(5), time or Time(), lambda: NOON_NS, EndedTraces())


def test_the_ratio_is_kept() -> None:
    traces = traces_of(0.1)
    assert 850 < sum(traces.is_sampled() for _ in range(10_000)) < 1_150


def test_a_second_has_a_bounded_number_of_traces() -> None:
    time = Time()
    traces = traces_of(1.0, per_s_max=7, time=time)
    assert sum(traces.is_sampled() for _ in range(50)) == 7
    time.now_s += 1
    assert sum(traces.is_sampled() for _ in range(50)) == 7


def test_traces_that_are_open_are_bounded() -> None:
    traces = traces_of(1.0)
    opened = [traces.begin("produce", {}) for _ in range(OPEN_MAX)]
    assert not traces.is_sampled()
    assert traces.begin("produce", {}, TraceContext(1, 2)) is None
    assert opened[0] is not None
    opened[0].end(100.0)
    assert traces.is_sampled()
    continued = traces.begin("produce", {}, TraceContext(1, 2))
    assert continued is not None
    assert (continued.trace_id, continued.root.parent_id) == (1, 2)
    assert traces.sampled == OPEN_MAX + 1
