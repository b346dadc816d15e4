"""A meter that tells when nothing ran at all."""

from __future__ import annotations

import pytest

from testing.processes import eventually
from tools.stall_meter import INTERVAL_S, STALL_S, STALLS_KEPT_MAX, Stall, StallMeter

pytestmark = pytest.mark.unit


def test_a_thread_that_is_woken_in_time_has_no_stall() -> None:
    meter = StallMeter()
    meter.note(10.0, 10.0 + INTERVAL_S + 0.02)
    assert meter.stalls == []
    assert meter.described() == "no stalls, woken at most 0.02 s late"


def test_a_stall_is_told_with_its_end_and_its_length() -> None:
    noted = list[Stall]()
    meter = StallMeter(noted=noted.append)
    meter.note(10.0, 10.0 + INTERVAL_S + STALL_S)
    meter.note(20.0, 25.0 + INTERVAL_S)
    assert noted == meter.stalls == [Stall(end_s=25.0 + INTERVAL_S, length_s=pytest.approx(5.0))]  # type: ignore[arg-type]
    assert meter.described() == "STOOD STILL 1 times, 5.0 s in all, 5.0 s at most"


def test_the_first_stalls_are_kept() -> None:
    meter = StallMeter()
    for number in range(STALLS_KEPT_MAX + 5):
        meter.note(number * 10.0, number * 10.0 + 5.0)
    assert len(meter.stalls) == STALLS_KEPT_MAX


def test_it_measures_while_it_is_entered() -> None:
    """By a clock that goes ten seconds with each look: each round is late."""
    looks = iter(range(0, 1_000_000, 10))
    with StallMeter(now=lambda: float(next(looks))) as meter:
        eventually(lambda: meter.stalls, 30, "a round was noted")
    assert meter.stalls[0].length_s == pytest.approx(10.0 - INTERVAL_S)
