"""How a table is laid out for lookups: its keys, its partitions by time, its retention. Decisions only.

A table whose definition has such a layout is an index. docs/INDEX.md describes the form for users.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StringConstraints

KEYS_MAX: Final = 16
RETENTION_MS_MIN: Final = 3_600_000
RETENTION_MS_MAX: Final = 2**53
TIMESTAMP_COLUMN: Final = "_bmq_timestamp"
"""The record's own timestamp, in every index."""
_NO_HASH: Final = ("boolean", "float", "double")


class KeyKind(StrEnum):
    """What a key is looked up by: one value, values between two, texts that begin so, or a time."""

    EXACT = "exact"
    RANGE = "range"
    PREFIX = "prefix"
    TIME = "time"


class Every(StrEnum):
    """How much time a partition has."""

    HOUR = "hour"
    DAY = "day"


class IndexKey(BaseModel):
    """One key. `field`: a field of the definition."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    by: KeyKind = KeyKind.EXACT


class IndexLayout(BaseModel):
    """`keys`: files are sorted by them, in this order. `every`: time of one partition.

    `retention_ms`: rows of an older time are deleted from the index, whatever the topic keeps; None: never.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    keys: Annotated[tuple[IndexKey, ...], Field(min_length=1, max_length=KEYS_MAX)]
    every: Every = Every.HOUR
    retention_ms: Annotated[StrictInt, Field(ge=RETENTION_MS_MIN, le=RETENTION_MS_MAX)] | None = None

    @property
    def time_column(self) -> str:
        """The column of partitions, time windows and retention: the time key, else the record's own timestamp."""
        return next((key.field for key in self.keys if key.by is KeyKind.TIME), TIMESTAMP_COLUMN)

    def kinds_of(self, field: str) -> frozenset[KeyKind]:
        """The keys that a field has."""
        return frozenset(key.by for key in self.keys if key.field == field)

    @property
    def sort_columns(self) -> tuple[str, ...]:
        """Columns by which each file is sorted: the keys in their order, then time, so that row groups have few of each."""
        keys = dict.fromkeys(key.field for key in self.keys if key.by is not KeyKind.TIME)
        return (*keys, self.time_column)

    @property
    def bloom_columns(self) -> tuple[str, ...]:
        """Columns with a bloom filter in each row group: the exact keys."""
        return tuple(dict.fromkeys(key.field for key in self.keys if key.by is KeyKind.EXACT))


def layout_fault(layout: IndexLayout, types: Mapping[str, str]) -> str | None:
    """The fault of the layout for a table with these columns, as one sentence; None: it has none."""
    seen = set[tuple[str, KeyKind]]()
    for key in layout.keys:
        kind = types.get(key.field)
        if kind is None:
            return f"index key {key.field}: there is no such field"
        if (key.field, key.by) in seen:
            return f"index key {key.field} by {key.by.value} is there more than once"
        seen.add((key.field, key.by))
        if key.by is KeyKind.EXACT and kind in _NO_HASH:
            return f"index key {key.field}: a {kind} has no exact key; make it a range"
        if key.by is KeyKind.RANGE and kind == "boolean":
            return f"index key {key.field}: a boolean has no order"
        if key.by is KeyKind.PREFIX and kind != "string":
            return f"index key {key.field}: a prefix is of a string, and it is a {kind}"
        if key.by is KeyKind.TIME and kind != "timestamp":
            return f"index key {key.field}: a time is a timestamp, and it is a {kind}"
    if sum(key.by is KeyKind.TIME for key in layout.keys) > 1:
        return "index: there is more than one time key"
    return None
