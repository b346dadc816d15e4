"""Which files of an index a selection may have rows in, and how many bytes of them would be read. Decisions only.

Iceberg's manifests have each file's partition, and the least and the greatest value of each column. What they leave is an upper
bound: DuckDB leaves out row groups as well, by their own statistics and bloom filters. Where the bound is too much, the
statistics of the row groups, which the files' footers have, give a better one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any

from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    LessThan,
    StartsWith,
)

from bmq.dataclass import dataclass
from bmq.index.query import Between, Selection
from bmq.index.values import Value, after_prefix


@dataclass(frozen=True, slots=True)
class Estimate:
    """What would be read at most. `files_total`: of the whole index."""

    files: int
    files_total: int
    rows: int
    bytes: int


def iceberg_filter(selection: Selection) -> BooleanExpression:
    """The conditions as Iceberg's own expression, which is evaluated against partitions and files' statistics."""
    found: list[BooleanExpression] = [EqualTo(term=each.field, value=_literal(each.value)) for each in selection.equals]
    for between in selection.betweens:
        if between.start is not None:
            found.append(GreaterThanOrEqual(term=between.field, value=_literal(between.start)))
        if between.end is not None:
            found.append(LessThan(term=between.field, value=_literal(between.end)))
    found += [StartsWith(term=each.field, value=each.prefix) for each in selection.prefixes]
    if not found:
        return AlwaysTrue()
    return found[0] if len(found) == 1 else And(*found)


def bytes_of(column_sizes: Mapping[int, int] | None, needed_ids: Iterable[int], file_bytes: int) -> int:
    """Bytes of the needed columns in one file; the whole file where its sizes are not known."""
    if not column_sizes:
        return file_bytes
    return min(file_bytes, sum(column_sizes.get(one, 0) for one in needed_ids))


def bounds_of(selection: Selection) -> tuple[Between, ...]:
    """All conditions as ranges. For an equality both bounds are its value, and the end is in the range."""
    found = list(selection.betweens)
    found += [Between(each.field, each.type, each.value, each.value) for each in selection.equals]
    found += [Between(each.field, "string", each.prefix, after_prefix(each.prefix)) for each in selection.prefixes]
    return tuple(found)


def may_match(bounds: Between, least: Any, greatest: Any) -> bool:
    """Whether a row group with these statistics may have a row within the bounds. Unknown statistics may."""
    try:
        if bounds.start is not None and greatest is not None and greatest < bounds.start:
            return False
        return not (bounds.end is not None and least is not None and least > bounds.end)
    except TypeError:  # statistics of another type: nothing is known
        return True


def _literal(value: Value) -> Any:
    """As pyiceberg takes it: a time as text."""
    return value.isoformat() if isinstance(value, datetime | date) else value
