"""Paths of a JSON value as nested types: one parse for as many fields as there can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.spark.tables.json_shape import JsonParse, ddl, parses

pytestmark = pytest.mark.unit

Wanted = list[tuple[str, list[str], str]]


def test_fields_below_one_name_are_parsed_together() -> None:
    (parse,) = parses([("id", ["id"], "bigint"), ("x", ["a", "b"], "int"), ("y", ["a", "c.d"], "string")])
    assert ddl(parse.shape) == "struct<`id`:bigint,`a`:struct<`b`:int,`c.d`:string>>"
    assert ddl(parse.shape, "string") == "struct<`id`:string,`a`:struct<`b`:string,`c.d`:string>>"
    assert parse.fields == {"id", "x", "y"}


@pytest.mark.parametrize(
    "other",
    [
        (["a", "b", "c"], "int"),
        (["a"], "string"),
        (["a", "b"], "bigint"),
        (["A", "b"], "int"),
        (["a", "B"], "int"),
        (["a", "b"], "string"),
    ],
)
def test_what_wants_the_same_place_otherwise_is_parsed_apart(other: tuple[list[str], str]) -> None:
    first, second = parses([("x", ["a", "b"], "int"), ("y", *other)])
    assert (first.fields, second.fields) == ({"x"}, {"y"})


def test_a_value_can_be_two_fields() -> None:
    (parse,) = parses([("x", ["a"], "int"), ("y", ["a"], "int")])
    assert parse.fields == {"x", "y"}


@given(
    st.lists(
        st.tuples(
            st.uuids().map(str),
            st.lists(st.sampled_from(["a", "A", "b", "c"]), min_size=1, max_size=4),
            st.sampled_from(["int", "string"]),
        ),
        max_size=12,
    )
)
def test_each_field_is_found_where_it_is_looked_for(wanted: Wanted) -> None:
    found = parses(wanted)
    assert [sum(name in parse.fields for parse in found) for name, _, _ in wanted] == [1] * len(wanted)
    for name, path, kind in wanted:
        (parse,) = (parse for parse in found if name in parse.fields)
        assert at(parse, path) == kind


def at(parse: JsonParse, path: list[str]) -> object:
    below: object = parse.shape
    for step in path:
        assert isinstance(below, dict)
        assert len({name.lower() for name in below}) == len(below)
        below = below[step]
    return below
