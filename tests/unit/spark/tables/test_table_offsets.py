"""What a batch writes, whatever died before it: every record in the table or among the dead letters, once."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.spark.tables.errors import TableMismatch, TableTaken
from bmq.spark.tables.table_offsets import (
    TableOffsets,
    Writer,
    all_fit,
    check_committed,
    check_planned,
    check_topic,
    check_writer,
    claim,
    dead_letter_offsets,
    definition_for,
    first_offsets_by_partition,
    starting_offsets,
    unwritten,
)

pytestmark = pytest.mark.unit

OFFSETS = TableOffsets("orders", "an-id", {0: 5, 2: 9})


@given(
    st.dictionaries(st.integers(0, 500), st.integers(0, 2**63 - 1)),
    st.none() | st.text(),
    st.none() | st.integers(0, 2**63 - 1),
)
def test_its_json_gives_the_same_again(
    next_offsets: dict[int, int], definition: str | None, snapshot_id: int | None
) -> None:
    offsets = TableOffsets("orders", "an-id", next_offsets, definition, snapshot_id)
    assert TableOffsets.from_json(offsets.to_json()) == offsets


@given(st.text() | st.sampled_from(['{"next":[]}', "[]", '{"topic":"a","topic_id":"b","next":{"x":1}}', "null"]))
def test_a_property_of_others_is_refused_in_a_sentence(text: str) -> None:
    for kind in (TableOffsets, Writer):
        with pytest.raises(TableMismatch, match="damaged"):
            kind.from_json(text)


def test_a_batch_that_is_written_leaves_nothing() -> None:
    assert unwritten(OFFSETS, {0: 5, 2: 8}) == {}


def test_of_a_batch_that_is_written_in_part_the_rest_is_left() -> None:
    assert unwritten(OFFSETS, {0: 7, 1: 3, 2: 9}) == {0: (5, 7), 1: (0, 3)}


def test_offsets_never_go_back() -> None:
    assert OFFSETS.moved_to({0: 3, 1: 4, 2: 10}).next_offsets == {0: 5, 1: 4, 2: 10}


def test_as_many_rows_as_offsets_leave_no_record_out() -> None:
    ranges = {0: (5, 7), 1: (0, 3)}
    assert all_fit(ranges, 5)
    assert not all_fit(ranges, 4)


def test_first_offsets_of_partitions_that_the_table_does_not_know() -> None:
    assert first_offsets_by_partition(OFFSETS, 5) == [5, 0, 9, 0, 0]
    assert first_offsets_by_partition(OFFSETS, 0) == [5, 0, 9]


def test_a_new_checkpoint_goes_on_from_the_table() -> None:
    assert json.loads(starting_offsets(OFFSETS, "orders", 4, "latest")) == {
        "orders": {"0": 5, "1": -2, "2": 9, "3": -2}
    }
    assert starting_offsets(None, "orders", 4, "latest") == "latest"


def test_a_job_started_again_has_its_table_and_another_one_does_not() -> None:
    first, again, other = Writer("hdfs://a", "1"), Writer("hdfs://a", "2"), Writer("hdfs://b", "3")
    assert claim(None, first, "orders", take_over=False) == first
    assert claim(first, again, "orders", take_over=False) == again
    with pytest.raises(TableTaken, match="hdfs://a"):
        claim(again, other, "orders", take_over=False)
    assert claim(again, other, "orders", take_over=True) == other
    check_writer(other, other, "orders")
    for current in (other, None):
        with pytest.raises(TableTaken, match="this job stops"):
            check_writer(current, again, "orders")


def test_a_topic_that_was_made_again_is_refused() -> None:
    check_topic(OFFSETS, "orders", "an-id", "t")
    with pytest.raises(TableMismatch, match="made again"):
        check_topic(OFFSETS, "orders", "another-id", "t")
    with pytest.raises(TableMismatch, match="not of payments"):
        check_topic(OFFSETS, "payments", "an-id", "t")


def test_dead_letters_of_an_earlier_topic_do_not_count() -> None:
    """They stay when the table is dropped and made again of the new topic."""
    earlier = TableOffsets("orders", "an-id", {0: 50}, "old")
    assert dead_letter_offsets(earlier, OFFSETS) == earlier
    again = TableOffsets("orders", "another-id", {})
    of_dead = dead_letter_offsets(earlier, again)
    assert of_dead == again and dead_letter_offsets(None, again) == again
    assert dead_letter_offsets(earlier, TableOffsets("payments", "an-id", {})).next_offsets == {}
    assert definition_for(again, of_dead, "current") == "current"


def test_a_checkpoint_of_another_topic_is_refused() -> None:
    check_planned("/c", {"orders": {}}, "orders", "t")
    with pytest.raises(TableMismatch, match="of topic payments"):
        check_planned("/c", {"payments": {}}, "orders", "t")


def test_a_table_behind_its_checkpoint_is_refused() -> None:
    check_committed("/c", {0: 5, 1: 0, 2: 7}, OFFSETS, "t")
    check_committed("/c", {0: 0}, None, "t")
    with pytest.raises(TableMismatch, match="ends at offset 5 of partition 0"):
        check_committed("/c", {0: 6}, OFFSETS, "t")
    with pytest.raises(TableMismatch, match="ends at offset 0 of partition 1"):
        check_committed("/c", {1: 1}, None, "t")


@dataclass
class Table:
    """What one commit changes: rows and offsets together."""

    offsets: TableOffsets = field(default_factory=lambda: TableOffsets("orders", "an-id", {}))
    rows: list[tuple[int, int]] = field(default_factory=list)

    def commit(self, rows: list[tuple[int, int]], offsets: TableOffsets) -> None:
        self.rows += rows
        self.offsets = offsets


class TableHistory(RuleBasedStateMachine):
    """Whatever dies, is replayed or altered, a record is in the table or among the dead letters, and once.

    A record is the set of definitions that it fits. A batch ends somewhere in the log, and is planned once: a replay has
    the same end, a new checkpoint plans anew from where the table ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[int, list[set[str]]] = {0: [], 1: []}
        self.table, self.dead_letters = Table(), Table()
        self.definition = "a"
        self.planned: dict[int, int] | None = None

    @rule(partition=st.integers(0, 1), fits=st.sets(st.sampled_from("abc")), count=st.integers(1, 3))
    def produce(self, partition: int, fits: set[str], count: int) -> None:
        self.log[partition] += [fits] * count

    @rule(definition=st.sampled_from("abc"))
    def alter(self, definition: str) -> None:
        self.definition = definition

    @precondition(lambda self: self.planned is None)
    @rule(data=st.data())
    def plan(self, data: st.DataObject) -> None:
        first = self.table.offsets.next_offsets
        self.planned = {p: data.draw(st.integers(first.get(p, 0), len(log))) for p, log in self.log.items()}

    @rule()
    def begin_a_new_checkpoint(self) -> None:
        self.planned = None

    @precondition(lambda self: self.planned is not None)
    @rule(death=st.sampled_from(["before", "between", "after", "never"]))
    def run_batch(self, death: str) -> None:
        assert self.planned is not None
        offsets, dead = self.table.offsets, self.dead_letters.offsets
        ranges = unwritten(offsets, self.planned)
        definition = definition_for(offsets, dead, self.definition)
        records = [(p, o, self.log[p][o]) for p, (start, end) in ranges.items() for o in range(start, end)]
        fitting = [(p, o) for p, o, fits in records if definition in fits]
        refused = [(p, o) for p, o, fits in records if definition not in fits]
        refused = [(p, o) for p, o in refused if o >= dead.next_offsets.get(p, 0)]
        if death == "before":
            return
        if refused:
            self.dead_letters.commit(refused, dead.moved_to(self.planned, definition))
        if death == "between":
            return
        if ranges:
            self.table.commit(fitting, offsets.moved_to(self.planned))
        if death == "never":
            self.planned = None

    @invariant()
    def each_record_is_somewhere_once(self) -> None:
        found = Counter(self.table.rows) + Counter(self.dead_letters.rows)
        assert all(count == 1 for count in found.values())
        written = {(p, o) for p, end in self.table.offsets.next_offsets.items() for o in range(end)}
        assert written <= found.keys()
        assert written >= set(self.table.rows)


TestTableHistory = TableHistory.TestCase
