"""Queries as JSON, values, the statement that they become, continuations."""

from __future__ import annotations

import base64
import json
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.index.completeness import PartitionState, partition_answers, partition_states, tail_ranges
from bmq.index.continuation import Continuation, Place, continuation_of
from bmq.index.errors import QueryRefused
from bmq.index.pruning import bytes_of, may_match
from bmq.index.query import Between, IndexQuery, Selection, selection_of
from bmq.index.statement import statement_of
from bmq.index.values import after_prefix, json_of, value_of
from tests.unit.index.indexes import HOUR_MS, NOW_MS, index_definition

pytestmark = pytest.mark.unit

INJECTION = '"; DROP TABLE t; --'


def selected(**form: Any) -> Selection:
    return selection_of(IndexQuery.from_json(json.dumps(form)), index_definition(), NOW_MS)


@pytest.mark.parametrize(
    ("given_value", "column_type", "expected"),
    [
        ("true", "boolean", True),
        (False, "boolean", False),
        ("12", "int", 12),
        (-(2**31), "int", -(2**31)),
        (2**63 - 1, "long", 2**63 - 1),
        ("1.5", "double", 1.5),
        (3, "float", 3.0),
        ("1.50", "decimal(10,2)", Decimal("1.50")),
        (7, "decimal(10,2)", Decimal("7.00")),
        (0, "decimal(2,2)", Decimal("0.00")),
        ("9" * 38, "decimal(38,0)", Decimal("9" * 38)),
        ("-" + "9" * 28 + "." + "1" * 10, "decimal(38,10)", Decimal("-" + "9" * 28 + "." + "1" * 10)),
        ("2026-11-24", "date", date(2026, 11, 24)),
        ("2026-11-24T10:00:00+02:00", "timestamp", datetime(2026, 11, 24, 8, tzinfo=UTC)),
        ("2026-11-24T10:00:00", "timestamp", datetime(2026, 11, 24, 10, tzinfo=UTC)),
        (1_500, "timestamp", datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)),
        ("1764000000000", "timestamp", datetime(2025, 11, 24, 16, tzinfo=UTC)),
        ("", "string", ""),
        ("AAE=", "binary", b"\0\1"),
    ],
)
def test_values(given_value: object, column_type: str, expected: object) -> None:
    found = value_of(given_value, column_type, "f")
    assert found == expected
    assert value_of(json_of(found), column_type, "f") == expected


@pytest.mark.parametrize(
    ("given_value", "column_type"),
    [
        ("yes", "boolean"),
        (1, "boolean"),
        (True, "int"),
        (2**31, "int"),
        ("1.0", "long"),
        (1.5, "long"),
        ("nan", "double"),
        ("inf", "float"),
        ("1.505", "decimal(10,2)"),
        ("123456789", "decimal(10,2)"),
        ("1e400000000", "decimal(10,2)"),
        ("NaN", "decimal(10,2)"),
        ("24.11.2026", "date"),
        ("soon", "timestamp"),
        (2**62, "timestamp"),
        (7, "string"),
        ("\ud800", "string"),
        (None, "string"),
        ({"a": 1}, "string"),
        ("%", "binary"),
        ("x" * 100_000, "string"),
    ],
)
def test_what_is_no_value_is_one_sentence(given_value: object, column_type: str) -> None:
    with pytest.raises(QueryRefused, match=r"^field f: .{1,200}$"):
        value_of(given_value, column_type, "f")


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ("no JSON", "the query: it is no JSON"),
        ({"key": {"a": 1}}, "there is no key key"),
        ({"limit": 0}, "limit: Input should be greater than or equal to 1"),
        ({"limit": 10_001}, "limit: Input should be less than or equal to 10000"),
        ({"limit": 2_000, "records": True}, "limit is 2000, and an answer has at most 1000 whole records"),
        ({"order": "up"}, "order: Input should be 'asc' or 'desc'"),
        ({"equals": {"nothing": 1}}, "index orders_index has no field nothing; it has customer, price"),
        ({"equals": {INJECTION: 1}}, "has no field"),
        ({"equals": {"price": "cheap"}}, "field price: 'cheap' is no decimal"),
        ({"ranges": {"price": {}}}, "the range of field price has neither from nor to"),
        ({"ranges": {"price": {"from": 2, "to": 2}}}, "the range of field price is empty"),
        ({"ranges": {"is_gift": {"from": True}}}, "field is_gift is a boolean, which has no order"),
        ({"prefixes": {"price": "1"}}, "field price is a decimal"),
        ({"prefixes": {"city": ""}}, "the prefix of field city is empty"),
        ({"from": 10, "to": 10}, "the time window is empty"),
        ({"from": "yesterday"}, "from: 'yesterday' is no time"),
        ({"order_by": "is_gift"}, "field is_gift is a boolean, which has no order"),
        ({"order_by": "nothing"}, "has no field nothing"),
        ({"equals": {f"f{number}": 1 for number in range(33)}}, "equals: Dictionary should have at most 32 items"),
        ({"continuation": "x"}, "the continuation is damaged"),
    ],
)
def test_a_query_that_cannot_be_is_one_sentence(form: Any, sentence: str) -> None:
    with pytest.raises(QueryRefused) as refused:
        query = IndexQuery.from_json(form if isinstance(form, str) else json.dumps(form))
        selection = selection_of(query, index_definition(), NOW_MS)
        continuation_of(query.continuation or "", selection, "id")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_table_without_keys_is_no_index() -> None:
    with pytest.raises(QueryRefused, match="is a table without an index"):
        selection_of(IndexQuery(), index_definition(index=None), NOW_MS)


def test_every_value_is_a_parameter() -> None:
    selection = selected(
        equals={"customer": INJECTION},
        prefixes={"city": INJECTION},
        ranges={"price": {"from": 1, "to": 2}},
        **{"from": 0, "to": HOUR_MS},
    )
    after = Place(datetime(2026, 1, 1, tzinfo=UTC), 1, 2)
    sql, parameters = statement_of(selection, [INJECTION], frozenset({"city"}), after, has_tail=True)
    assert "DROP" not in sql
    assert sql.count("?") == len(parameters) == 1 + 1 + 2 + 2 + 2 + 5
    assert parameters[:2] == [[INJECTION], INJECTION]
    assert 'CAST(NULL AS VARCHAR) AS "city"' in sql


@given(st.text(min_size=1, max_size=5), st.text(max_size=5))
def test_all_texts_that_begin_so_are_before_the_end(prefix: str, other: str) -> None:
    end = after_prefix(prefix)
    for text in (prefix, prefix + other, other):
        assert (prefix <= text and (end is None or text < end)) == text.startswith(prefix)


def test_the_last_characters_have_no_end() -> None:
    assert after_prefix("\U0010ffff\U0010ffff") is None
    assert after_prefix("a\U0010ffff") == "b"
    assert after_prefix("\ud7ff") == "\ue000"


# --- continuations


@given(
    st.dictionaries(st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), max_size=20),
    st.none() | st.decimals(-(10**8) + 1, 10**8 - 1, places=2, allow_nan=False),
    st.integers(0, 2**63 - 1),
)
def test_a_continuation_comes_back_as_it_was(ends: dict[int, int], value: Decimal | None, offset: int) -> None:
    selection = selected(order_by="price")
    made = Continuation("id", ends, Place(value, 3, offset))
    assert continuation_of(made.to_text(selection), selection, "id") == made


def test_numbers_that_no_query_gives_may_end_a_page() -> None:
    fields = [{"name": "x", "type": "double"}]
    definition = index_definition(fields=fields, index={"keys": [{"field": "x", "by": "range"}]})
    selection = selection_of(IndexQuery(order_by="x"), definition, NOW_MS)
    made = Continuation("id", {}, Place(float("inf"), 0, 0))
    assert continuation_of(made.to_text(selection), selection, "id") == made


def test_a_number_that_is_too_large_is_a_damaged_continuation() -> None:
    fields = [{"name": "x", "type": "double"}]
    definition = index_definition(fields=fields, index={"keys": [{"field": "x", "by": "range"}]})
    selection = selection_of(IndexQuery(order_by="x"), definition, NOW_MS)
    token = _token({"v": 1, "q": selection.fingerprint, "i": "id", "e": [], "p": [10**400, 0, 0]})
    with pytest.raises(QueryRefused, match="continuation is damaged"):
        continuation_of(token, selection, "id")


def test_a_continuation_is_of_one_query() -> None:
    text = Continuation("id", {0: 1}, Place(None, 0, 0)).to_text(selected(equals={"city": "Bern"}))
    with pytest.raises(QueryRefused, match="belongs to another query"):
        continuation_of(text, selected(equals={"city": "Berlin"}), "id")
    assert continuation_of(text, selected(equals={"city": "Bern"}, limit=7), "id").ends == {0: 1}
    with pytest.raises(QueryRefused, match="dropped and made again"):
        continuation_of(text, selected(equals={"city": "Bern"}), "other")


def _token(form: object) -> str:
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(form).encode())).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "%%%",
        "AAAA",
        _token([]),
        _token({"v": 1}),
        _token({"v": 1, "q": "", "i": "", "e": [[0, -1]], "p": [None, 0, 0]}),
        _token({"v": 1, "q": "", "i": "", "e": [], "p": [None, True, 0]}),
        _token({"v": 1, "q": "", "i": "", "e": 5, "p": [None, 0, 0]}),
        _token({"v": 1, "q": "", "i": "", "e": [], "p": ["soon", 0, 0]}),
        _token("x" * 2_000_000),
    ],
)
def test_a_damaged_continuation_is_refused(text: str) -> None:
    with pytest.raises(QueryRefused, match=r"continuation is damaged|is no timestamp"):
        continuation_of(text, selected(), "id")


def test_a_continuation_of_another_release() -> None:
    with pytest.raises(QueryRefused, match="another release"):
        continuation_of(_token({"v": 2}), selected(), "id")


# --- completeness and pruning


def test_the_tail_is_what_is_neither_indexed_nor_deleted() -> None:
    states = partition_states({0: 5, 1: 0, 2: 9}, {0: 10, 1: 4, 2: 9}, {0: 3, 1: 4})
    assert states[0] == PartitionState(0, log_start=5, indexed_to=3, end=10)
    assert tail_ranges(states, None) == {0: (5, 10)}
    assert tail_ranges(states, {0: 7}) == {0: (5, 7)}
    assert tail_ranges(states, {0: 5}) == {}
    answers = partition_answers(states, {0: 8}, None)
    assert [(each.complete_to, each.is_complete) for each in answers] == [(8, False), (4, True), (9, True)]
    assert partition_answers(states, {}, {0: 2})[0].complete_to == 2
    assert partition_answers(states, {0: 10}, {0: 7, 1: 4, 2: 9})[0].complete_to == 7


def test_an_index_ahead_of_the_last_stable_offset_is_complete() -> None:
    (answer,) = partition_answers(partition_states({0: 0}, {0: 10}, {0: 12}), {}, None)
    assert (answer.complete_to, answer.end, answer.is_complete) == (12, 12, True)


def test_row_groups_without_a_match_are_left_out() -> None:
    bounds = Between("price", "long", 10, 20)
    assert [may_match(bounds, *each) for each in ((0, 9), (0, 10), (20, 30), (21, 30), (None, None))] == [
        False,
        True,
        True,
        False,
        True,
    ]
    assert may_match(bounds, "a", "b"), "statistics of another type tell nothing"
    assert bytes_of({1: 10, 2: 20}, [1, 3], 100) == 10
    assert bytes_of(None, [1], 100) == 100
