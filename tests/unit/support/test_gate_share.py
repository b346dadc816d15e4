"""The gate has a share of many cases, and the campaign each other one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from tests.support.gate_share import few_in_gate
from tests.support.places import place_of

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")


def given(mark: pytest.MarkDecorator) -> list[Any]:
    return list(mark.mark.args[1])


def in_gate(cases: Iterable[Any]) -> list[Any]:
    return [case for case in cases if not hasattr(case, "marks")]


def test_the_gate_has_the_first_the_last_and_each_so_many_of_them() -> None:
    mark = few_in_gate("number", range(12), every=5, others=in_campaign)
    assert in_gate(given(mark)) == [0, 5, 10, 11]
    assert [case.values for case in given(mark) if case not in in_gate(given(mark))][:2] == [(1,), (2,)]
    assert in_gate(given(few_in_gate("number", [7], every=5, others=in_campaign))) == [7]


@pytest.mark.parametrize("names", ["left, right", ("left", "right")])
def test_a_case_of_several_values_keeps_them(names: Any) -> None:
    cases = given(few_in_gate(names, [(1, 2), (3, 4), (5, 6)], every=2, others=in_campaign))
    assert cases[0] == (1, 2) and cases[1].values == (3, 4) and cases[2] == (5, 6)


def test_a_case_with_a_name_and_markers_keeps_them() -> None:
    slow = pytest.mark.timeout(5)
    _, second, _ = given(
        few_in_gate("a, b", [(1, 2), pytest.param(3, 4, id="x", marks=slow), (5, 6)], every=2, others=in_campaign)
    )
    assert (second.values, second.id) == ((3, 4), "x")
    assert [mark.name for mark in second.marks] == ["timeout", "campaign"]


def test_a_pair_under_one_name_is_one_value() -> None:
    assert given(few_in_gate("pair", [(1, 2), (3, 4), (5, 6)], every=2, others=in_campaign))[1].values == ((3, 4),)


def test_a_share_that_is_all_of_them_is_an_error() -> None:
    with pytest.raises(ValueError, match="each case"):
        few_in_gate("number", range(3), every=1, others=in_campaign)


@few_in_gate("number", range(3), every=2, others=in_campaign)
def test_a_case_runs_where_its_marker_says(number: int, request: pytest.FixtureRequest) -> None:
    assert place_of(request.node.iter_markers()) == ("campaign:unit" if number == 1 else "unit")
    assert request.node.name == f"{request.node.originalname}[{number}]"
