"""Two answers, field by field, and which differences are meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.answers import CLOSED
from tests.conformance.compare import MISSING, Difference, differences
from tests.conformance.intended import INTENDED, Intended, reason_for

pytestmark = pytest.mark.campaign("unit")

ANSWERS = st.recursive(
    st.integers(-3, 3) | st.text("ab", max_size=2) | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)


@given(ANSWERS)
def test_an_answer_is_equal_to_itself(answer: object) -> None:
    assert differences(answer, answer) == []


@given(ANSWERS, ANSWERS)
def test_what_differs_is_found_from_both_sides(one: object, other: object) -> None:
    forth, back = differences(one, other), differences(other, one)
    assert bool(forth) == (one != other)
    assert {(each.path, str(each.bmq), str(each.kafka)) for each in forth} == {
        (each.path, str(each.kafka), str(each.bmq)) for each in back
    }


def test_a_difference_names_the_way_to_its_field() -> None:
    def answer(code: int) -> dict[str, object]:
        return {"topics": [{"name": "t", "partitions": [{"partition_index": 0, "error_code": code}]}]}

    assert differences(answer(0), answer(3)) == [Difference("topics/t/partitions/0/error_code", 0, 3)]


def test_an_element_that_one_side_lacks_is_one_difference() -> None:
    found = differences({"topics": [{"name": "a"}]}, {"topics": [{"name": "a"}, {"name": "b"}]})
    assert found == [Difference("topics/b", MISSING, {"name": "b"})]


def test_elements_named_alike_are_compared_one_after_the_other() -> None:
    found = differences([{"name": "a", "v": 1}, {"name": "a", "v": 2}], [{"name": "a", "v": 1}, {"name": "a", "v": 3}])
    assert found == [Difference("1/v", 2, 3)]


def test_an_answer_beside_none_is_one_difference() -> None:
    assert differences({"error_code": 0}, CLOSED) == [Difference("", {"error_code": 0}, CLOSED)]
    assert differences(CLOSED, CLOSED) == []


def test_an_intended_difference_is_met_by_api_case_field_and_values() -> None:
    entry = Intended("name", "reason", frozenset({3}), ("all*",), ("topics/*/error_code",), kafka=(5,))
    difference = Difference("topics/t/error_code", 3, 5)
    assert reason_for(3, "all topics", difference, [entry]) is entry
    assert reason_for(4, "all topics", difference, [entry]) is None
    assert reason_for(3, "a topic", difference, [entry]) is None
    assert reason_for(3, "all topics", Difference("topics/t/name", 3, 5), [entry]) is None
    assert reason_for(3, "all topics", Difference("topics/t/error_code", 3, 6), [entry]) is None
    assert reason_for(3, "all topics", Difference("topics/t/error_code", 3, None), [entry]) is None


def test_every_intended_difference_has_a_name_of_its_own_and_a_reason() -> None:
    names = [entry.name for entry in INTENDED]
    assert len(set(names)) == len(names)
    assert all(len(entry.reason) > 20 for entry in INTENDED)
