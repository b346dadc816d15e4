"""Plans of resets: which offsets, within which bounds, and what they mean."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.cli.kafka.offset_reset import BadReset, parse_plan, parse_scope, plan_reset, shifted

pytestmark = pytest.mark.unit

AT = ("t", 0)
COUNTS = {"a": 3, "b:c": 1}


@given(st.integers(-5, 30), st.none() | st.integers(0, 30), st.integers(0, 10), st.integers(0, 10))
def test_a_planned_offset_is_in_the_log_and_its_note_says_what_it_means(
    asked: int, before: int | None, start: int, length: int
) -> None:
    end = start + length
    (move,) = plan_reset({AT: asked}, {} if before is None else {AT: before}, {AT: start}, {AT: end})
    assert start <= move.offset <= end
    assert move.offset == asked or not start <= asked <= end
    assert move.is_change == (move.offset != before)
    assert ("outside the log" in move.note) == (move.offset != asked)
    if before is not None and move.offset < before:
        assert move.note.startswith(f"reads {before - move.offset} again")
    elif before is not None and move.offset > before:
        assert move.note.startswith(f"skips {move.offset - before}")


def test_a_shift_needs_an_offset() -> None:
    assert shifted([AT], {AT: 5}, -7) == {AT: -2}
    with pytest.raises(BadReset, match="no committed offset in t-1"):
        shifted([("t", 1)], {AT: 5}, 1)


def test_a_scope_names_topics_and_partitions() -> None:
    assert parse_scope(["a:2,0", "a:0"], COUNTS) == [("a", 0), ("a", 2)]
    assert parse_scope(["a"], COUNTS) == [("a", 0), ("a", 1), ("a", 2)]
    for text, why in (
        ("gone", "no topic 'gone'"),
        ("a:3", "no partition 3; it has 3"),
        ("a:", "is no number"),
        ("a:-1", "is no number"),
        ("a:²", "is no number"),
        (f"a:{'9' * 5000}", "is no number"),
    ):
        with pytest.raises(BadReset, match=why):
            parse_scope([text], COUNTS)


@given(
    st.dictionaries(st.tuples(st.from_regex(r"[a-z.,]{1,5}", fullmatch=True), st.integers(0, 99)), st.integers(0, 9))
)
def test_a_plan_is_read_as_it_was_written(wanted: dict[tuple[str, int], int]) -> None:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["topic", "partition", "committed", "offset"])
    writer.writerows([topic, partition, "", offset] for (topic, partition), offset in wanted.items())
    assert parse_plan(file.getvalue().splitlines(keepends=True), "plan.csv") == wanted


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "plan.csv has no column 'topic'"),
        ("topic,partition\na,0\n", "no column 'offset'"),
        ("topic,partition,offset\na,0,x\n", "plan.csv, line 2: 'x' is no number"),
        ("topic,partition,offset\na,0\n", "line 2: '' is no number"),
        ("topic,partition,offset\na,0,1\na,0,2\n", "line 3: a-0 stands there twice"),
        (f"topic,partition,offset\n{'a' * 200_000},0,1\n", "is not CSV"),
    ],
)
def test_a_file_that_is_no_plan_is_one_sentence(text: str, why: str) -> None:
    with pytest.raises(BadReset, match=why):
        parse_plan(text.splitlines(keepends=True), "plan.csv")
