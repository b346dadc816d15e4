"""Rates of the rarer faults: drawn for each seed, or set by name."""

from __future__ import annotations

import argparse
import random

import pytest

from tests.fakes.store import Faults
from tests.simulation.__main__ import one_rate
from tests.simulation.fault_rates import KINDS, FaultRates, worsen

pytestmark = pytest.mark.simulation


def test_each_fault_is_absent_from_some_seeds() -> None:
    drawn = [FaultRates().draw(random.Random(seed)) for seed in range(50)]
    for name, kind in KINDS.items():
        assert {one[name] for one in drawn} == {float(rate) for rate in kind.usual}
        assert 0 in kind.usual
        assert kind.highest > max(kind.usual)


def test_what_is_set_leaves_the_others_as_they_were_drawn() -> None:
    usual = FaultRates().draw(random.Random(3))
    assert FaultRates({"late_calls": 0.7}).draw(random.Random(3)) == usual | {"late_calls": 0.7}
    assert FaultRates.highest({"resets": 0}).draw(random.Random(3)) == {
        name: kind.highest for name, kind in KINDS.items()
    } | {"resets": 0}


def test_the_store_is_as_bad_as_the_rates_say() -> None:
    faults = Faults()
    worsen(faults, FaultRates.highest().draw(random.Random(0)))
    assert faults.late_call_rate == KINDS["late_calls"].highest
    assert faults.append_raises_rate == KINDS["raising_appends"].highest


@pytest.mark.parametrize("text", ["late_call=1", "late_calls", "late_calls=often"])
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        one_rate(text)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match="no fault named nothing"):
        FaultRates({"nothing": 1.0})
