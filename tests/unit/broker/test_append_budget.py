"""The append budget: bounded, and whoever waits for room is told once."""

from __future__ import annotations

import pytest

from bmq.broker.append_budget import AppendBudget

pytestmark = pytest.mark.unit


def test_beyond_the_second_bound_appends_are_refused() -> None:
    budget = AppendBudget(100)
    assert budget.take(150)
    assert budget.is_full
    assert budget.take(50)
    assert not budget.take(1)
    assert budget.bytes_used == 200


def test_a_lone_append_always_fits() -> None:
    budget = AppendBudget(100)
    assert budget.take(1000)
    assert not budget.take(1)


def test_waiters_wake_once_when_there_is_room() -> None:
    budget = AppendBudget(100)
    woken: list[str] = []
    budget.on_room(lambda: woken.append("at once"))
    budget.take(120)
    budget.on_room(lambda: woken.append("later"))
    forget = budget.on_room(lambda: woken.append("never"))
    forget()
    budget.give_back(10)
    assert woken == ["at once"]
    budget.give_back(20)
    assert woken == ["at once", "later"]
    budget.take(100)
    budget.give_back(100)
    assert woken == ["at once", "later"]
