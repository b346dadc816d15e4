"""Which of many times is due first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.log.due_times import DueTimes

pytestmark = pytest.mark.unit

STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "forget", "take"]), st.integers(0, 5), st.integers(0, 50)), max_size=40
)


@given(STEPS, st.integers(1, 7))
def test_it_is_a_dictionary_of_times_that_knows_its_least(steps: list[tuple[str, int, int]], interval_ms: int) -> None:
    times: DueTimes[int] = DueTimes()
    expected: dict[int, int] = {}
    for step, key, at_ms in steps:
        if step == "set":
            times.set(key, at_ms)
            expected[key] = at_ms
        elif step == "forget":
            times.forget(key)
            expected.pop(key, None)
        else:
            count_max = key
            due = sorted((one_ms, one) for one, one_ms in expected.items() if one_ms <= at_ms)
            assert times.due(at_ms) == (due[0][1] if due else None)
            due = due[:count_max]
            assert times.take(at_ms, count_max, interval_ms) == [one for _, one in due]
            for due_ms, one in due:
                expected[one] = next(ms for ms in range(due_ms, at_ms + 9, interval_ms) if ms > at_ms)
        assert times.next_ms == min(expected.values(), default=None)
        assert times._times == expected


def test_forgotten_keys_leave_the_memory() -> None:
    times: DueTimes[int] = DueTimes()
    for key in range(5_000):
        times.set(key, key)
    for key in range(4_999):
        times.forget(key)
    assert len(times._heap) < 2_000
    assert times.next_ms == 4_999


def test_times_that_were_set_anew_leave_the_memory() -> None:
    times: DueTimes[int] = DueTimes()
    times.set(1, 0)  # the earliest, so nothing comes up behind it
    for at_ms in range(1, 50_000):
        times.set(2, at_ms)
        assert len(times._heap) <= 2 * 2 + 1_001
    assert times.next_ms == 0
    times.forget(1)
    assert times.next_ms == 49_999
