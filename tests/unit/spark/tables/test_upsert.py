"""Merging batches gives the rows that a replay record by record gives; the statements run in DuckDB, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bmq.spark.tables.upsert import (
    CHANGE_COLUMN,
    BatchSummary,
    Change,
    batch_summary,
    last_records_query,
    merge_statement,
    moved_key,
    moved_sentence,
    ranged_fields,
    summary_query,
)

pytestmark = pytest.mark.unit

KEY = {"shop": "string", "id": "long"}
COLUMNS = (*KEY, "city", "_bmq_partition", "_bmq_offset")


@dataclass(frozen=True)
class Record:
    """`city` None: the record has none; a key of None: it has no key, and does nothing."""

    key: tuple[str, int] | None
    city: str | None
    is_deletion: bool

    @property
    def change(self) -> Change:
        if self.key is None:
            return Change.NOTHING
        return Change.DELETE if self.is_deletion else Change.UPSERT


Placed = tuple[int, int, Record]
keys = st.one_of(st.none(), st.tuples(st.sampled_from(["a", "b'`"]), st.integers(0, 3)))
records = st.builds(Record, keys, st.one_of(st.none(), st.sampled_from(["Bern", "Ulm"])), st.booleans())


def placed(found: list[Record]) -> list[Placed]:
    """Each key in a partition of its own choice, and offsets in order."""
    next_offsets = {0: 0, 1: 0}
    result = []
    for record in found:
        partition = 0 if record.key is None else record.key[1] % 2
        result.append((partition, next_offsets[partition], record))
        next_offsets[partition] += 1
    return result


def replayed(found: list[Placed]) -> dict[tuple[str, int], tuple[str | None, int, int]]:
    """The oracle: one record after the other."""
    rows: dict[tuple[str, int], tuple[str | None, int, int]] = {}
    for partition, offset, record in found:
        if record.key is None:
            continue
        if record.is_deletion:
            rows.pop(record.key, None)
        else:
            rows[record.key] = (record.city, partition, offset)
    return rows


class Database:
    """A table with KEY, merged into by the product's statements."""

    def __init__(self) -> None:
        self._connection = duckdb.connect()
        self._run(
            "CREATE TABLE rows (shop STRING, id BIGINT, city STRING, `_bmq_partition` INT, `_bmq_offset` BIGINT);"
            "CREATE TABLE batch AS SELECT *, '' AS `_bmq_change` FROM rows LIMIT 0"
        )

    def _run(self, statement: str) -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = self._connection.execute(
            statement.replace("`", '"').replace("raise_error(", "error(")
        ).fetchall()
        return found

    def merge(self, batch: list[Placed]) -> BatchSummary:
        self._run("DELETE FROM batch")
        for partition, offset, record in batch:
            shop, number = record.key or (None, None)
            self._connection.execute(
                "INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)",
                [shop, number, record.city, partition, offset, record.change.value],
            )
        self._run(f"CREATE OR REPLACE TABLE last AS {last_records_query('batch', list(KEY))}")
        summary = batch_summary(self._run(summary_query("last", KEY))[0], KEY)
        if summary.moved is None:
            self._run(merge_statement("rows", "last", KEY, COLUMNS, summary.bounds))
        return summary

    def rows(self) -> dict[tuple[str, int], tuple[str | None, int, int]]:
        found = self._run("SELECT * FROM rows")
        rows = {(row[0], row[1]): tuple(row[2:]) for row in found}
        assert len(rows) == len(found), "a key has two rows"
        return rows  # type: ignore[return-value]

    def close(self) -> None:
        self._connection.close()


@given(st.lists(records, max_size=14), st.lists(st.integers(0, 14), max_size=3))
@settings(max_examples=12, deadline=None)
def test_any_batches_give_what_a_replay_gives(found: list[Record], cuts: list[int]) -> None:
    everything = placed(found)
    edges = [0, *sorted(cuts), len(everything)]
    database = Database()
    try:
        for start, end in pairwise(edges):
            batch = everything[start:end]
            summary = database.merge(batch)
            last = {record.key: record.change for _, _, record in batch if record.key is not None}
            of_last = list(last.values())
            numbers = [key[1] for key in last]
            bounds = {"id": (str(min(numbers)), str(max(numbers)))} if numbers else {}
            upserts, deletes = of_last.count(Change.UPSERT), of_last.count(Change.DELETE)
            assert summary == BatchSummary(len(batch), upserts, deletes, None, bounds)
            assert database.rows() == replayed(everything[:end])
    finally:
        database.close()


def test_a_key_in_two_partitions_is_refused_within_a_batch_and_towards_the_table() -> None:
    here = Record(("a", 1), "Bern", is_deletion=False)
    database = Database()
    assert database.merge([(0, 5, here), (1, 2, here)]).moved == "a, 1"
    assert database.rows() == {}
    database.merge([(0, 5, here)])
    with pytest.raises(duckdb.Error) as failure:
        database.merge([(1, 2, here)])
    assert moved_key(f"Job aborted: {failure.value} SQLSTATE: P0001", "shop.orders", "orders") == (
        "key 'a, 1' of table orders has records in partitions 0 and 1 of topic shop.orders, so none of them is the last one; "
        "records of a key have to be in one partition: produce them with the key, and add no partitions"
    )
    assert database.rows() == {("a", 1): ("Bern", 0, 5)}
    database.close()


def test_other_failures_are_no_moved_keys_and_long_keys_are_cut() -> None:
    assert moved_key("No space left on device", "t", "orders") is None
    assert "x…' of table orders has records in several partitions" in moved_sentence("x" * 5_000, "t", "orders")


def test_a_key_of_one_field_is_named_alone() -> None:
    assert "CONCAT" not in summary_query("last", {"id": "long"})
    assert f"`{CHANGE_COLUMN}` <> 'nothing'" in summary_query("last", {"id": "long"})


def test_only_numbers_and_times_of_a_key_bound_what_is_read() -> None:
    key = {
        "a": "string",
        "b": "decimal(9,2)",
        "c": "timestamp",
        "d": "boolean",
        "e": "binary",
        "f": "long",
        "g": "date",
    }
    assert ranged_fields(key) == ["b", "c", "f", "g"]
    statement = merge_statement("t", "s", key, ["a"], {"b": ("1.50", "2.00"), "f": ("-3", "7")})
    assert "t.`b` >= CAST('1.50' AS decimal(9,2)) AND t.`b` <= CAST('2.00' AS decimal(9,2))" in statement
    assert "t.`f` >= CAST('-3' AS bigint)" in statement and "t.`c` >=" not in statement
