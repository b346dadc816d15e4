"""Conditions of `find`: nothing a user gives can leave its place in them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.jobs.find_query import FindQuery, NamedValue, json_path
from bmq.spark.jobs.outcome import JobFailed

pytestmark = pytest.mark.unit


def test_all_that_is_given_must_hold() -> None:
    query = FindQuery(
        key="k",
        headers=(NamedValue("h", "v"), NamedValue("g", None)),
        json_fields=(NamedValue("a.b", "7"), NamedValue("c", None)),
        from_ms=5,
        to_ms=9,
    )
    assert query.condition == (
        "(key = X'6b')"
        " AND (exists(headers, h -> h.key = CAST(X'68' AS STRING) AND h.value = X'76'))"
        " AND (exists(headers, h -> h.key = CAST(X'67' AS STRING)))"
        " AND (get_json_object(CAST(value AS STRING), CAST(X'245b2761275d5b2762275d' AS STRING)) = CAST(X'37' AS STRING))"
        " AND (get_json_object(CAST(value AS STRING), CAST(X'245b2763275d' AS STRING)) IS NOT NULL)"
        " AND (timestamp >= timestamp_millis(5L)) AND (timestamp < timestamp_millis(9L))"
    )


def test_nothing_given_means_every_record() -> None:
    assert FindQuery().condition == "TRUE"


@given(st.text(max_size=20), st.text(max_size=20))
def test_what_is_given_is_hexadecimal_in_the_condition(key: str, value: str) -> None:
    condition = FindQuery(key=key, headers=(NamedValue("h", value),)).condition
    assert re.fullmatch(
        r"\(key = X'[0-9a-f]*'\) AND \(exists\(headers, h -> h\.key = CAST\(X'68' AS STRING\)"
        r" AND h\.value = X'[0-9a-f]*'\)\)",
        condition,
    )


@pytest.mark.parametrize(
    ("field", "path"),
    [("a", "$['a']"), ("a.b", "$['a']['b']"), ("a[0].b", "$['a'][0]['b']"), ("a[1][2]", "$['a'][1][2]")],
)
def test_a_path_is_quoted(field: str, path: str) -> None:
    assert json_path(field) == path


@pytest.mark.parametrize("field", ["", "a..b", "a[", "a[x]", "a'b", "a]", "[0]", "a[0"])
def test_what_is_no_path_is_refused(field: str) -> None:
    with pytest.raises(JobFailed, match="is no field"):
        json_path(field)


def test_a_name_and_its_value_are_parted_at_the_first_sign() -> None:
    assert NamedValue.parse("a=b=c") == NamedValue("a", "b=c")
    assert NamedValue.parse("a=") == NamedValue("a", "")
    assert NamedValue.parse("a") == NamedValue("a", None)
    with pytest.raises(JobFailed, match="has no name"):
        NamedValue.parse("=b")
