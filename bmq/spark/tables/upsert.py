"""Which record of a batch decides about the row of its key, and the statement that merges those into a table. Decisions only.

A batch has all records of its offsets, each with its key and what it does. Of each key the last record decides: it replaces or
adds the row, or deletes it. Records of one partition are in the order of their offsets, and no two partitions have an order, so
the records of a key have to be in one partition: a batch, or a table, where they are not is refused.

As batches follow each other by offset, merging one after the other gives the rows that replaying record by record gives. Both
statements are SQL that other engines take as well, apart from the quotes of names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from bmq.spark.tables.columns import OFFSET_COLUMN, PARTITION_COLUMN, quoted, spark_type
from bmq.table_definitions.column_types import precision_and_scale

CHANGE_COLUMN: Final = "_bmq_change"
RECORDS_COLUMN: Final = "_bmq_records"
"""Number of the batch's records of a key."""
LOWEST_COLUMN: Final = "_bmq_lowest"
HIGHEST_COLUMN: Final = "_bmq_highest"
"""Least and greatest partition of the batch's records of a key."""
_RANGED: Final = ("int", "long", "date", "timestamp")
_RANK_COLUMN: Final = "_bmq_rank"
_MOVED_BEGIN: Final = "_bmq_moved"
_MOVED_END: Final = "_bmq_moved_end"
_MOVED: Final = re.compile(rf"{_MOVED_BEGIN} (\d+) (\d+) (.*?) {_MOVED_END}", re.DOTALL)
_SHOWN_CHARACTERS_MAX: Final = 200


class Change(StrEnum):
    """What a record does to the row of its key. NOTHING: it has no key, and no row, such as what Debezium sends after a deletion."""

    UPSERT = "upsert"
    DELETE = "delete"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """`records`: all of the batch that fit. `upserts`, `deletes`: keys whose last record does that. `moved`: a key whose records
    are in several partitions, as text. `bounds`: of fields of the key the least and the greatest value, as text.
    """

    records: int
    upserts: int
    deletes: int
    moved: str | None
    bounds: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def last_records_query(source: str, key: Sequence[str]) -> str:
    """The last record of each key, and of those without a key. `source`: a table of records with their change."""
    keys = ", ".join(map(quoted, key))
    by_key = f"(PARTITION BY {keys}, {quoted(CHANGE_COLUMN)} = '{Change.NOTHING}')"
    last_first = f"ORDER BY {quoted(PARTITION_COLUMN)} DESC, {quoted(OFFSET_COLUMN)} DESC"
    return (
        f"SELECT * FROM (SELECT *, ROW_NUMBER() OVER {by_key[:-1]} {last_first}) AS {quoted(_RANK_COLUMN)}, "
        f"COUNT(*) OVER {by_key} AS {quoted(RECORDS_COLUMN)}, "
        f"MIN({quoted(PARTITION_COLUMN)}) OVER {by_key} AS {quoted(LOWEST_COLUMN)}, "
        f"MAX({quoted(PARTITION_COLUMN)}) OVER {by_key} AS {quoted(HIGHEST_COLUMN)} "
        f"FROM {source}) AS ranked WHERE {quoted(_RANK_COLUMN)} = 1"
    )


def ranged_fields(key: Mapping[str, str]) -> list[str]:
    """Fields of a key, given with their types, whose least and greatest values spare reading files: numbers and times."""
    return [name for name, kind in key.items() if kind in _RANGED or precision_and_scale(kind) is not None]


def summary_query(last_records: str, key: Mapping[str, str]) -> str:
    """One row: records, upserts, deletes, a key in several partitions, and the bounds. `key`: fields with their types."""
    change = quoted(CHANGE_COLUMN)

    def count(change_value: Change) -> str:
        return f"COALESCE(SUM(CASE WHEN {change} = '{change_value}' THEN 1 ELSE 0 END), 0)"

    is_moved = f"{change} <> '{Change.NOTHING}' AND {quoted(LOWEST_COLUMN)} <> {quoted(HIGHEST_COLUMN)}"
    bounds = [f"CAST({way}({quoted(name)}) AS STRING)" for name in ranged_fields(key) for way in ("MIN", "MAX")]
    return (
        f"SELECT COALESCE(SUM({quoted(RECORDS_COLUMN)}), 0), {count(Change.UPSERT)}, {count(Change.DELETE)}, "
        f"{', '.join([f'MIN(CASE WHEN {is_moved} THEN {_key_text(list(key))} END)', *bounds])} FROM {last_records}"
    )


def batch_summary(row: Sequence[Any], key: Mapping[str, str]) -> BatchSummary:
    """The result of `summary_query`."""
    records, upserts, deletes, moved, *bounds = row
    pairs = zip(ranged_fields(key), zip(bounds[::2], bounds[1::2], strict=True), strict=True)
    return BatchSummary(
        int(records),
        int(upserts),
        int(deletes),
        None if moved is None else str(moved),
        {name: (str(least), str(greatest)) for name, (least, greatest) in pairs if least is not None},
    )


def merge_statement(
    table: str,
    last_records: str,
    key: Mapping[str, str],
    columns: Sequence[str],
    bounds: Mapping[str, tuple[str, str]],
) -> str:
    """Merge the last records into the table. `table`: its whole identifier; `key`: fields with their types; `columns`: all of the
    table's; `bounds`: of the batch, so that files without its keys are not read.

    It fails with a text for `moved_key` when the row of a key was written by a record of another partition.
    """
    conditions = [f"t.{quoted(name)} = s.{quoted(name)}" for name in key]
    for name, (least, greatest) in bounds.items():
        kind = spark_type(key[name])
        conditions += [
            f"t.{quoted(name)} >= CAST('{least}' AS {kind})",
            f"t.{quoted(name)} <= CAST('{greatest}' AS {kind})",
        ]
    on = " AND ".join(conditions)
    partition = quoted(PARTITION_COLUMN)
    moved = (
        f"CONCAT('{_MOVED_BEGIN} ', CAST(t.{partition} AS STRING), ' ', CAST(s.{partition} AS STRING), ' ', "
        f"{_key_text(list(key), 's.')}, ' {_MOVED_END}')"
    )
    is_moved = f"t.{partition} <> s.{partition}"
    change = f"s.{quoted(CHANGE_COLUMN)}"
    return (
        f"MERGE INTO {table} AS t USING (SELECT * FROM {last_records} WHERE {quoted(CHANGE_COLUMN)} <> '{Change.NOTHING}') AS s "
        f"ON {on} "
        f"WHEN MATCHED AND {is_moved} "
        # The case again: an engine may compute the new values before it chooses the clause.
        f"THEN UPDATE SET {partition} = CASE WHEN {is_moved} THEN CAST(raise_error({moved}) AS INT) END "
        f"WHEN MATCHED AND {change} = '{Change.DELETE}' THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{quoted(name)} = s.{quoted(name)}' for name in columns)} "
        f"WHEN NOT MATCHED AND {change} = '{Change.UPSERT}' "
        f"THEN INSERT ({', '.join(map(quoted, columns))}) VALUES ({', '.join(f's.{quoted(name)}' for name in columns)})"
    )


def moved_key(failure: str, topic: str, table: str) -> str | None:
    """The sentence when a merge failed since a key has records in two partitions; None if it failed for another reason."""
    found = _MOVED.search(failure)
    if found is None:
        return None
    return moved_sentence(found[3], topic, table, f"partitions {found[1]} and {found[2]}")


def moved_sentence(key: str, topic: str, table: str, where: str = "several partitions") -> str:
    shown = key if len(key) <= _SHOWN_CHARACTERS_MAX else f"{key[:_SHOWN_CHARACTERS_MAX]}…"
    return (
        f"key {shown!r} of table {table} has records in {where} of topic {topic}, so none of them is the last one; records of a "
        "key have to be in one partition: produce them with the key, and add no partitions"
    )


def _key_text(key: Sequence[str], of: str = "") -> str:
    texts = ", ', ', ".join(f"CAST({of}{quoted(name)} AS STRING)" for name in key)
    return f"CONCAT({texts})" if len(key) > 1 else texts
