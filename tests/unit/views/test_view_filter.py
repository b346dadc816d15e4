"""Filters of views: SQLite judges what the language means; everything it does not have is refused with one sentence."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.views.filter_error import InvalidFilter
from bmq.views.record_fields import RecordFields
from bmq.views.view_filter import FILTER_BYTES_MAX, compiled

pytestmark = pytest.mark.unit

RECORD = RecordFields(
    b"order-7",
    [
        (b"bmq-tag", b"red"),
        (b"TAGS", b"blue"),
        (b"x-lane", b"canary"),
        (b"price", b"12.5"),
        (b"bin", b"\xff\xfe"),
        (b"null", None),
        (b"key", b"a header"),
        (b"order", b"first"),
    ],
    1_700_000_000_000,
    41,
    3,
)


def truth(text: str, record: RecordFields = RECORD) -> bool | None:
    return compiled(text).predicate(record)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("tag = 'red'", True),
        ("tag = 'blue' AND tag = 'red'", True),
        ("tag <> 'blue'", False),
        ("tag IN ('green', 'blue')", True),
        ("tag NOT IN ('green')", True),
        ("Tag = 'red'", True),
        ("\"x-lane\" = 'canary'", True),
        ("\"X-Lane\" = 'canary'", None),
        ("x_lane IS NULL", True),
        ("price > 12 AND price <= 12.5 AND 13 > price", True),
        ("price = '12.5'", True),
        ("price IN (1, 12.50)", True),
        ("price BETWEEN 13 AND 14", False),
        ("bin = 'x'", None),
        ("bin <> 'x'", None),
        ("bin IS NULL", False),
        ("bin LIKE '%'", None),
        ("bin IN ('x')", None),
        ("tag > 5", None),
        ('"null" IS NULL', True),
        ("missing = 'x'", None),
        ("NOT missing = 'x'", None),
        ("missing = 'x' OR tag = 'red'", True),
        ("missing = 'x' AND tag = 'green'", False),
        ("key LIKE 'order-_'", True),
        ("key LIKE 'ORDER-%'", False),
        ("key ILIKE 'ORDER-%'", True),
        ("key LIKE 'order!-7' ESCAPE '!'", True),
        ("key NOT LIKE '%8'", True),
        ("key REGEXP '[0-9]$'", True),
        ("REGEXP_LIKE(key, '^[0-9]')", False),
        ("\"key\" = 'a header'", True),
        ("order = 'first'", True),
        ("timestamp >= '2023-11-14T22:13:20Z'", True),
        ("timestamp < '2023-11-14 22:13:20'", False),
        ("timestamp = 1700000000000 AND offset = 41 AND partition IN (3)", True),
        ("offset <> -1", True),
        ("TRUE", True),
        ("FALSE OR NOT (tag = 'green')", True),
        ("tag = 'it''s' /* a comment */ OR (tag) = 'x'", "refused"),
    ],
)
def test_meaning(text: str, wanted: bool | str | None) -> None:
    if wanted == "refused":
        with pytest.raises(InvalidFilter):
            compiled(text)
    else:
        assert truth(text) is wanted


NAMES = ("a", "b", "n")
LITERALS = st.sampled_from(("'x'", "'xy'", "''", "'z_'", "'7'"))
ATOMS = st.one_of(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), LITERALS).map(" ".join),
    st.tuples(st.sampled_from(NAMES), LITERALS, LITERALS).map(lambda t: f"{t[0]} BETWEEN {t[1]} AND {t[2]}"),
    st.tuples(st.sampled_from(NAMES), st.lists(LITERALS, min_size=1, max_size=3)).map(
        lambda t: f"{t[0]} IN ({', '.join(t[1])})"
    ),
    st.tuples(st.sampled_from(NAMES), st.sampled_from(("", "NOT ")), st.sampled_from(("'x%'", "'_'", "'%y'"))).map(
        lambda t: f"{t[0]} {t[1]}LIKE {t[2]}"
    ),
    st.tuples(st.sampled_from(NAMES), st.sampled_from(("IS NULL", "IS NOT NULL"))).map(" ".join),
)
CONDITIONS = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(("AND", "OR")), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from((" AND ", " OR ")), inner).map("".join),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=6,
)
VALUES = st.none() | st.sampled_from((b"x", b"xy", b"", b"z_", b"7", b"\xc3\xa9"))


@given(CONDITIONS, st.fixed_dictionaries(dict.fromkeys(NAMES, VALUES)))
def test_sqlite_gives_the_same_truth(condition: str, values: dict[str, bytes | None]) -> None:
    record = RecordFields(None, [(name.encode(), value) for name, value in values.items() if value != b""], 0, 0, 0)
    texts = {name: None if value in (None, b"") else value.decode() for name, value in values.items()}
    with sqlite3.connect(":memory:") as database:
        database.execute("PRAGMA case_sensitive_like = ON")
        columns = ", ".join(f":{name} AS {name}" for name in NAMES)
        ((judged,),) = database.execute(f"SELECT {condition} FROM (SELECT {columns})", texts).fetchall()
    database.close()
    assert truth(condition, record) is (None if judged is None else bool(judged))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the filter is empty"),
        ("   ", "the filter is empty"),
        ("-- only a comment", "the filter is empty"),
        ("tag", "alone is no condition"),
        ("'x'", "alone is no condition"),
        ("a = b", "text is written in single quotes"),
        ("value = 'x'", "does not look at the value"),
        ("a.b = 'x'", "not part of a filter"),
        ("a IN (SELECT 1)", "not part of a filter"),
        ("a = 1; b = 2", "not part of a filter"),
        ("CASE WHEN a = 1 THEN 1 END = 1", "not part of a filter"),
        ("a + 1 = 2", "not part of a filter"),
        ("a = 'x", "a quote that is not closed"),
        ("a = ", "not a condition of SQL"),
        ("a = 'x' OR", "not a condition of SQL"),
        ("a = 'x')", "not a condition of SQL"),
        ("f(a) = 'x'", "is not a name"),
        ("(a, b) = (1, 2)", "is not a name"),
        ("a IN ()", "IN has 0 values"),
        ("a IS TRUE", "IS is followed by NULL"),
        ("a LIKE b", "a pattern is text"),
        ("a LIKE 'x!' ESCAPE '!'", "the last escape character"),
        ("a LIKE 'x' ESCAPE 'long'", "one character"),
        ("a REGEXP '('", "a pattern of the filter is refused"),
        ("a REGEXP '(a{1000}){1000}'", "a pattern of the filter is refused"),
        ("REGEXP_LIKE(a, 'x', 'i')", "a filter has only"),
        ("offset LIKE '4%'", "patterns are for text"),
        ("offset = 'x'", "compared with a number"),
        ("timestamp > 'yesterday'", "is no time"),
        ("a = 1e999", "no number that can be compared"),
        ("(" * 10_000 + "a = 1" + ")" * 10_000, "bytes, 8192 are allowed"),
        ("(" * 17 + "a = 1" + ")" * 17, "16 parentheses"),
        ("NOT " * 5 + "a = 1", "in a row"),
        ("a IN (" + ",".join(["1"] * 1001) + ")", "words and signs"),
        ("a = '" + "x" * 1_000_000 + "'", "bytes, 8192 are allowed"),
    ],
)
def test_refusals_are_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InvalidFilter) as refused:
        compiled(text)
    message = str(refused.value)
    assert sentence in message
    assert "\n" not in message
    assert "\x1b" not in message
    assert len(message) < 300


@given(
    st.text(max_size=60)
    | st.lists(
        st.sampled_from(["a", "=", "'x'", "(", ")", "AND", "OR", "NOT", "IN", "LIKE", ",", "1", "-", "IS", "NULL", ";"])
    ).map(" ".join)
)
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        found = compiled(text)
    except InvalidFilter:
        return
    assert found.predicate(RECORD) in (True, False, None)


def test_a_thousand_terms_are_no_deep_nest() -> None:
    text = " OR ".join(["a=1"] * 450)
    assert len(text) < FILTER_BYTES_MAX
    with pytest.raises(InvalidFilter, match="words and signs"):
        compiled(text + " OR a=1" * 100)
    assert truth(text) is None


@pytest.mark.parametrize(
    ("text", "is_by_headers"),
    [("tag = 'a' AND x = 1", True), ("\"key\" = 'x'", True), ("key = 'x'", False), ("tag = 'a' OR offset > 1", False)],
)
def test_which_filters_look_at_headers_alone(text: str, is_by_headers: bool) -> None:
    assert compiled(text).is_by_headers is is_by_headers


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("tag = 'a'", 1),
        ("'a' = key AND (x IN ('a', 'b') OR TRUE)", 2),
        ("tag = 'a' OR tag = 'a' OR \"tag\" = 'a'", 2),
        ("FALSE", 0),
        ("tag = 'a' AND NOT x = 'b'", None),
        ("tag <> 'a'", None),
        ("x = 7", None),
        ("x IN ('a', 7)", None),
        ("x > 'a'", None),
        ("timestamp = '2026-11-29'", None),
        ("tag = 'a' AND offset > 3", None),
        (" OR ".join(f"h{number} = 'a'" for number in range(7)), None),
        (f"x IN ({', '.join(repr(str(number)) for number in range(100))})", None),
    ],
)
def test_which_filters_the_kernel_evaluates(text: str, terms: int | None) -> None:
    found = compiled(text).kernel_filter
    assert (None if found is None else len(found.terms)) == terms
