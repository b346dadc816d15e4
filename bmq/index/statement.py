"""A selection as a statement for DuckDB. Pure.

Names are checked and quoted; every value is a parameter. The rows of the files and of the tail are one relation, so both are
selected and ordered by the same statement.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bmq.index.continuation import Place
from bmq.index.query import Selection
from bmq.index.values import Value, after_prefix, sql_type
from bmq.spark.tables.columns import OFFSET_COLUMN, PARTITION_COLUMN
from bmq.table_definitions.index_layout import TIMESTAMP_COLUMN

TAIL: Final = "bmq_tail"
"""The registered relation with the rows of the tail: the answer's columns and the three own ones."""
BOUNDS: Final = "bmq_bounds"
"""The registered relation with partition, log_start and complete_to: rows outside are hidden."""
_OWN: Final = ((PARTITION_COLUMN, "int"), (OFFSET_COLUMN, "long"), (TIMESTAMP_COLUMN, "timestamp"))


class Statement(NamedTuple):
    sql: str
    parameters: list[Any]


def row_columns(selection: Selection) -> tuple[tuple[str, str], ...]:
    """Columns of a row as the statement gives it: partition, offset, timestamp, then those of the definition.

    A timestamp is microseconds since 1970.
    """
    return (*_OWN, *selection.columns)


def statement_of(
    selection: Selection, files: list[str], absent: frozenset[str], after: Place | None, *, has_tail: bool
) -> Statement:
    """One row more than the limit, which tells whether there are more. `absent`: columns that no file has.

    `after`: the last row of the page before. Without files and tail there is no row, and no statement is needed.
    """
    columns = row_columns(selection)
    parameters: list[Any] = []
    parts = []
    if files:
        chosen = ", ".join(
            f"CAST(NULL AS {sql_type(kind)}) AS {_quoted(name)}" if name in absent else _quoted(name)
            for name, kind in columns
        )
        parts.append(f"SELECT {chosen} FROM read_parquet(?, union_by_name = true, hive_partitioning = false)")
        parameters.append(files)
    if has_tail:
        parts.append(f"SELECT {', '.join(_quoted(name) for name, _ in columns)} FROM {TAIL}")
    conditions = _conditions(selection, parameters)
    if after is not None:
        conditions.append(_behind(selection, after, parameters))
    result = ", ".join(
        f"epoch_us(r.{_quoted(name)})" if kind == "timestamp" else f"r.{_quoted(name)}" for name, kind in columns
    )
    direction = "DESC" if selection.is_descending else "ASC"
    order = ", ".join(
        f"r.{_quoted(name)} {direction} NULLS LAST"
        for name in (selection.order_column, PARTITION_COLUMN, OFFSET_COLUMN)
    )
    partition, offset = f"r.{_quoted(PARTITION_COLUMN)}", f"r.{_quoted(OFFSET_COLUMN)}"
    sql = (
        f"SELECT {result} FROM ({' UNION ALL '.join(parts)}) AS r "
        f"JOIN {BOUNDS} AS b ON b.partition = {partition} AND {offset} >= b.log_start AND {offset} < b.complete_to "
        f"WHERE {' AND '.join(conditions) or 'true'} ORDER BY {order} LIMIT {int(selection.limit) + 1}"
    )
    return Statement(sql, parameters)


def _conditions(selection: Selection, parameters: list[Any]) -> list[str]:
    found = []

    def compare(field: str, operator: str, value: Value, column_type: str) -> None:
        parameters.append(value)
        found.append(f"r.{_quoted(field)} {operator} CAST(? AS {sql_type(column_type)})")

    for equals in selection.equals:
        compare(equals.field, "=", equals.value, equals.type)
    for between in selection.betweens:
        if between.start is not None:
            compare(between.field, ">=", between.start, between.type)
        if between.end is not None:
            compare(between.field, "<", between.end, between.type)
    for prefix in selection.prefixes:
        compare(prefix.field, ">=", prefix.prefix, "string")
        end = after_prefix(prefix.prefix)
        if end is not None:
            compare(prefix.field, "<", end, "string")
    return found


def _behind(selection: Selection, after: Place, parameters: list[Any]) -> str:
    column, sign = f"r.{_quoted(selection.order_column)}", "<" if selection.is_descending else ">"
    partition, offset = f"r.{_quoted(PARTITION_COLUMN)}", f"r.{_quoted(OFFSET_COLUMN)}"
    position = f"({partition} {sign} ? OR ({partition} = ? AND {offset} {sign} ?))"
    places = [after.partition, after.partition, after.offset]
    if after.value is None:
        parameters.extend(places)
        return f"({column} IS NULL AND {position})"
    value = f"CAST(? AS {sql_type(selection.order_type)})"
    parameters.extend([after.value, after.value, *places])
    return f"({column} {sign} {value} OR {column} IS NULL OR ({column} = {value} AND {position}))"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
