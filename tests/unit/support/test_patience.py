"""Waits are longer on a slower machine, and by what it stood still."""

from __future__ import annotations

from pathlib import Path

import pytest

from testing import patience as module
from testing.patience import STALLS, Patience, largest_used_share, measured_slowness, stalled_s

pytestmark = pytest.mark.unit


class Machine:
    """`now_s` is set by the test."""

    def __init__(self, slowness: float = 1.0) -> None:
        self.now_s = 100.0
        self.slowness = slowness
        self.stalled_s = 0.0

    def patience(self, limit_s: float) -> Patience:
        return Patience(
            limit_s, now=lambda: self.now_s, slowness=lambda: self.slowness, stalled_s=lambda since_s: self.stalled_s
        )


def test_it_is_over_after_its_limit() -> None:
    machine = Machine()
    patience = machine.patience(20)
    machine.now_s += 20
    assert not patience.is_over()
    machine.now_s += 0.1
    assert patience.is_over()


def test_a_machine_that_is_three_times_slower_is_given_three_times_as_long() -> None:
    machine = Machine(slowness=3.0)
    patience = machine.patience(20)
    machine.now_s += 59.9
    assert not patience.is_over()
    machine.now_s += 0.2
    assert patience.is_over()


def test_what_the_machine_stood_still_is_added() -> None:
    machine = Machine()
    patience = machine.patience(20)
    machine.now_s, machine.stalled_s = 125.0, 6.0
    assert not patience.is_over()
    machine.now_s = 126.1
    assert patience.is_over()


def test_the_largest_share_is_kept_until_it_is_asked_for() -> None:
    largest_used_share()
    machine = Machine(slowness=2.0)
    for waited_s in (2.0, 10.0, 1.0):
        patience = machine.patience(20)
        machine.now_s += waited_s
        patience.note()
    assert largest_used_share() == pytest.approx(0.25)
    assert largest_used_share() == 0.0


def test_stalls_are_those_that_ended_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "stalls"
    monkeypatch.setenv(STALLS, str(file))
    assert stalled_s(0.0) == 0.0
    file.write_text("10.0 2.5\n20.0 3.0\n30.0 4.0\n")
    assert stalled_s(15.0) == 7.0
    monkeypatch.delenv(STALLS)
    assert stalled_s(0.0) == 0.0


def test_slowness_is_measured_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 1.0 <= measured_slowness() <= module.SLOWNESS_MAX
    monkeypatch.setattr(module, "LOOP_REFERENCE_S", 1e-9)
    assert measured_slowness() == module.SLOWNESS_MAX
    monkeypatch.setattr(module, "LOOP_REFERENCE_S", 1e9)
    monkeypatch.setattr(module, "START_REFERENCE_S", 1e9)
    assert measured_slowness() == 1.0
