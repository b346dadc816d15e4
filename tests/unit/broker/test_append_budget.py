"""The append budget: bounded, and given back."""

from __future__ import annotations

import pytest

from bmq.broker.append_budget import AppendBudget

pytestmark = pytest.mark.unit


def test_beyond_the_second_bound_appends_are_refused() -> None:
    budget = AppendBudget(100)
    assert budget.take(150)
    assert budget.take(50)
    assert not budget.take(1)
    assert budget.bytes_used == 200
    budget.give_back(150)
    assert budget.take(150) and not budget.take(1)


def test_a_lone_append_always_fits() -> None:
    budget = AppendBudget(100)
    assert budget.take(1000)
    assert not budget.take(1)
