"""A query on an index: its form as JSON, and what it means for the index's definition. Pure."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationError,
)

from bmq.dataclass import dataclass
from bmq.index.errors import QueryRefused
from bmq.index.values import Value, json_of, time_of, value_of
from bmq.table_definitions.definition import TableDefinition, sentence_of
from bmq.table_definitions.index_layout import TIMESTAMP_COLUMN, IndexLayout, KeyKind

CONDITIONS_MAX: Final = 32
LIMIT_MAX: Final = 10_000
RECORDS_LIMIT_MAX: Final = 1_000
CONTINUATION_CHARACTERS_MAX: Final = 256 * 1024
_NO_ORDER: Final = ("boolean",)
_FieldText = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class Order(StrEnum):
    """Smallest or oldest first, or the other way round. Rows without a value are last in both."""

    ASCENDING = "asc"
    DESCENDING = "desc"


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class ValueRange(_Part):
    """From the first value on, before the second one; either may be left out."""

    start: Annotated[JsonValue, Field(alias="from", description="The first value")] = None
    end: Annotated[JsonValue, Field(alias="to", description="Before this value")] = None


class IndexQuery(_Part):
    """All conditions have to hold. `start`, `end`: the window of the index's time.

    `records`: the answer has whole records, not only their places. `explain`: the answer says what would be read, and nothing is
    read. `continuation`: as the last answer gave it, with the rest of the query unchanged.
    """

    equals: Annotated[dict[_FieldText, JsonValue], Field(max_length=CONDITIONS_MAX)] = Field(default_factory=dict)
    ranges: Annotated[dict[_FieldText, ValueRange], Field(max_length=CONDITIONS_MAX)] = Field(default_factory=dict)
    prefixes: Annotated[dict[_FieldText, str], Field(max_length=CONDITIONS_MAX)] = Field(default_factory=dict)
    start: Annotated[str | StrictInt | None, Field(alias="from", description="RFC 3339, or milliseconds")] = None
    end: Annotated[str | StrictInt | None, Field(alias="to", description="RFC 3339, or milliseconds")] = None
    limit: Annotated[StrictInt, Field(ge=1, le=LIMIT_MAX)] = 100
    order: Order = Order.ASCENDING
    order_by: Annotated[_FieldText | None, Field(description="A field [the index's time]")] = None
    records: StrictBool = False
    explain: StrictBool = False
    continuation: Annotated[str, StringConstraints(max_length=CONTINUATION_CHARACTERS_MAX)] | None = None

    @classmethod
    def from_json(cls, text: str | bytes) -> IndexQuery:
        """Raises QueryRefused."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            sentence = sentence_of(error.errors(include_url=False, include_context=False))
            raise QueryRefused(f"the query: {sentence.replace('the definition is', 'it is')}") from None


@dataclass(frozen=True, slots=True)
class Equals:
    field: str
    type: str
    value: Value


@dataclass(frozen=True, slots=True)
class Between:
    """`start` <= value < `end`; None: no bound."""

    field: str
    type: str
    start: Value | None
    end: Value | None


@dataclass(frozen=True, slots=True)
class Prefix:
    field: str
    prefix: str


@dataclass(frozen=True, slots=True)
class Selection:
    """A query that was checked against a definition. `columns`: of the answer, names and types.

    `order_column` and its type may be the record's own timestamp. `fingerprint`: equal for pages of one query.
    """

    columns: tuple[tuple[str, str], ...]
    time_column: str
    equals: tuple[Equals, ...]
    betweens: tuple[Between, ...]
    prefixes: tuple[Prefix, ...]
    order_column: str
    order_type: str
    is_descending: bool
    limit: int
    fingerprint: str

    @property
    def needed_columns(self) -> frozenset[str]:
        """Columns that are read: those of the answer, which has them all, and the time."""
        return frozenset(name for name, _ in self.columns) | {TIMESTAMP_COLUMN}


def layout_of(definition: TableDefinition) -> IndexLayout:
    """Raises QueryRefused: it is a table, not an index."""
    if definition.index is None:
        raise QueryRefused(f"{definition.name} is a table without an index; make one with `bmq index create`")
    return definition.index


def selection_of(query: IndexQuery, definition: TableDefinition, now_ms: int) -> Selection:
    """Raises QueryRefused: a field that is not there, a value of another type, a window that has no time."""
    layout = layout_of(definition)
    types = {each.name: each.type for each in definition.fields}

    def type_of(field: str) -> str:
        if field not in types:
            raise QueryRefused(f"index {definition.name} has no field {field}; it has {', '.join(types)}")
        return types[field]

    equals = tuple(
        Equals(name, type_of(name), value_of(given, type_of(name), name)) for name, given in query.equals.items()
    )
    betweens = [_between(name, type_of(name), given) for name, given in query.ranges.items()]
    prefixes = tuple(_prefix(name, type_of(name), given) for name, given in query.prefixes.items())
    window = _window(query, layout, now_ms)
    if window is not None:
        betweens.append(window)
    order_column = query.order_by or layout.time_column
    order_type = "timestamp" if order_column == TIMESTAMP_COLUMN else type_of(order_column)
    if order_type in _NO_ORDER:
        raise QueryRefused(f"field {order_column} is a {order_type}, which has no order")
    if query.records and query.limit > RECORDS_LIMIT_MAX:
        raise QueryRefused(f"limit is {query.limit}, and an answer has at most {RECORDS_LIMIT_MAX} whole records")
    return Selection(
        columns=tuple(types.items()),
        time_column=layout.time_column,
        equals=equals,
        betweens=tuple(betweens),
        prefixes=prefixes,
        order_column=order_column,
        order_type=order_type,
        is_descending=query.order is Order.DESCENDING,
        limit=query.limit,
        fingerprint=_fingerprint(query),
    )


def keys_used(selection: Selection, layout: IndexLayout) -> list[str]:
    """For each condition a sentence: the key that serves it, or that there is none."""
    found = []
    wanted = (
        [(each.field, (KeyKind.EXACT, KeyKind.RANGE, KeyKind.PREFIX)) for each in selection.equals]
        + [(each.field, (KeyKind.RANGE, KeyKind.TIME)) for each in selection.betweens]
        + [(each.field, (KeyKind.PREFIX, KeyKind.RANGE)) for each in selection.prefixes]
    )
    for field, kinds in wanted:
        has = layout.kinds_of(field)
        serving = next((kind for kind in kinds if kind in has), None)
        if field == layout.time_column:
            found.append(f"{field} is the time of the index: other partitions are not read")
        elif serving is not None:
            found.append(f"{field} has a key ({serving.value}): row groups without a match are not read")
        else:
            found.append(f"{field} has no such key: all rows that the other conditions leave are read")
    return found


def _between(field: str, column_type: str, given: ValueRange) -> Between:
    if column_type == "boolean":
        raise QueryRefused(f"field {field} is a boolean, which has no order")
    start, end = (None if bound is None else value_of(bound, column_type, field) for bound in (given.start, given.end))
    if start is None and end is None:
        raise QueryRefused(f"the range of field {field} has neither from nor to")
    if start is not None and end is not None and not start < end:  # type: ignore[operator]
        raise QueryRefused(f"the range of field {field} is empty: from is not below to, which is left out itself")
    return Between(field, column_type, start, end)


def _prefix(field: str, column_type: str, given: str) -> Prefix:
    if column_type != "string":
        raise QueryRefused(f"field {field} is a {column_type}, and only a string has a prefix")
    if not given:
        raise QueryRefused(f"the prefix of field {field} is empty")
    value_of(given, column_type, field)
    return Prefix(field, given)


def _window(query: IndexQuery, layout: IndexLayout, now_ms: int) -> Between | None:
    start = None if query.start is None else time_of(query.start, "from")
    end = None if query.end is None else time_of(query.end, "to")
    if start is not None and end is not None and start >= end:
        raise QueryRefused("the time window is empty: from is not before to")
    if layout.retention_ms is not None:
        # What retention will delete is hidden at once, so that an answer does not depend on when the job runs.
        kept_from = datetime.fromtimestamp(max(0, now_ms - layout.retention_ms) / 1_000, UTC)
        start = kept_from if start is None else max(start, kept_from)
    return None if start is None and end is None else Between(layout.time_column, "timestamp", start, end)


def _fingerprint(query: IndexQuery) -> str:
    form: dict[str, Any] = query.model_dump(mode="json", exclude={"continuation", "limit", "explain", "records"})
    return hashlib.sha256(json.dumps(form, sort_keys=True).encode()).hexdigest()[:16]


def shown(selection: Selection) -> list[str]:
    """The conditions as text."""
    texts = [f"{each.field} = {json_of(each.value)}" for each in selection.equals]
    for each in selection.betweens:
        texts += [] if each.start is None else [f"{each.field} >= {json_of(each.start)}"]
        texts += [] if each.end is None else [f"{each.field} < {json_of(each.end)}"]
    return texts + [f"{each.field} begins with {each.prefix}" for each in selection.prefixes]
