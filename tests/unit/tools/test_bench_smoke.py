"""A smoke looks at what was judged and what failed, never at a figure."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench_smoke import problems

pytestmark = pytest.mark.campaign("unit")


def results(*ids: str, **others: Any) -> dict[str, Any]:
    return {"criteria": [{"id": name, "value": None, "holds": None} for name in ids], **others}


def test_results_of_an_earlier_form_are_not_compared() -> None:
    assert problems(results("a", format=2), results("b")) == []


def test_without_results_nothing_is_compared() -> None:
    assert problems(results("a", format=2), {}) == []


def test_new_criteria_and_missing_figures_are_no_problem() -> None:
    assert problems(results("a", "b", "new", failures={}), results("a", "b")) == []


def test_whatever_is_not_judged_or_failed_is_a_problem() -> None:
    assert problems(results("a"), results("a", "b")) == ["criterion b is missing"]
    assert problems(results("a", "a"), results("a")) == ["criterion a is there twice"]
    assert problems(results("a", failures={"part": ["why"]}), results("a")) == ["part failed: ['why']"]
    assert problems(results(), results()) == ["there are no criteria"]
