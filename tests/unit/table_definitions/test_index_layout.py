"""Definitions with a layout for lookups: what may be a key, and what may change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bmq.table_definitions.definition import InvalidDefinition, TableDefinition
from bmq.table_definitions.evolution import AlterationRefused, alterations
from bmq.table_definitions.index_identity import index_identity
from bmq.table_definitions.index_layout import KeyKind

pytestmark = pytest.mark.unit

FIELDS = [
    {"name": "id", "type": "long"},
    {"name": "city", "type": "string"},
    {"name": "price", "type": "double"},
    {"name": "is_gift", "type": "boolean"},
    {"name": "at", "type": "timestamp", "unit": "ms"},
]


def made(index: Any, **changes: Any) -> TableDefinition:
    form = {"name": "t", "topic": "orders", "format": "json", "fields": FIELDS, "index": index, **changes}
    return TableDefinition.from_json(json.dumps(form))


def keys(*given: tuple[str, str]) -> dict[str, Any]:
    return {"keys": [{"field": field, "by": by} for field, by in given]}


def test_the_layout_follows_from_the_keys() -> None:
    layout = made(keys(("city", "exact"), ("city", "prefix"), ("price", "range"), ("at", "time"))).index
    assert layout is not None
    assert layout.sort_columns == ("city", "price", "at")
    assert layout.bloom_columns == ("city",)
    assert layout.time_column == "at"
    assert layout.kinds_of("city") == {KeyKind.EXACT, KeyKind.PREFIX}
    without_time = made({"keys": [{"field": "id"}]}).index
    assert without_time is not None
    assert without_time.sort_columns == ("id", "_bmq_timestamp")


@pytest.mark.parametrize(
    ("index", "sentence"),
    [
        (keys(("nothing", "exact")), "index key nothing: there is no such field"),
        (keys(("id", "exact"), ("id", "exact")), "index key id by exact is there more than once"),
        (keys(("price", "exact")), "index key price: a double has no exact key; make it a range"),
        (keys(("is_gift", "range")), "index key is_gift: a boolean has no order"),
        (keys(("id", "prefix")), "index key id: a prefix is of a string, and it is a long"),
        (keys(("id", "time")), "index key id: a time is a timestamp, and it is a long"),
        ({"keys": []}, "index.keys: Tuple should have at least 1 item"),
        ({"keys": [{"field": "id", "by": "hash"}]}, "index.keys.0.by: Input should be 'exact', 'range', 'prefix' or 'time'"),
        ({"keys": [{"field": "id"}], "retention_ms": 1}, "index.retention_ms: Input should be greater than"),
        ({"keys": [{"field": "id"}], "every": "week"}, "index.every: Input should be 'hour' or 'day'"),
        ({"keys": [{"field": "id"}], "until": 1}, "there is no key index.until"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_sentence(index: Any, sentence: str) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        made(index)
    assert sentence in str(refused.value)


def test_an_index_has_no_second_partitioning_by_time() -> None:
    with pytest.raises(InvalidDefinition, match="an index is partitioned by its time already"):
        made(keys(("id", "exact")), partitioning=[{"by": "day", "field": "at"}])
    assert made(keys(("id", "exact")), partitioning=[{"by": "bucket", "field": "id", "buckets": 8}]).partitioning


def test_two_times() -> None:
    fields = [{"name": "a", "type": "timestamp"}, {"name": "b", "type": "timestamp"}]
    with pytest.raises(InvalidDefinition, match="more than one time key"):
        made(keys(("a", "time"), ("b", "time")), fields=fields)


def test_a_definition_without_an_index_has_no_such_key() -> None:
    plain = made(None)
    assert "index" not in json.loads(plain.to_json())
    assert TableDefinition.from_json(plain.to_json()) == plain
    index = made(keys(("id", "exact")))
    assert TableDefinition.from_json(index.to_json()) == index


def test_only_the_retention_changes() -> None:
    before = made(keys(("id", "exact")))
    kept = made({**keys(("id", "exact")), "retention_ms": 7_200_000})
    assert alterations(before, kept) == ("rows are kept for 7200000 ms",)
    assert alterations(kept, before) == ("rows are kept for ever",)
    assert alterations(before, before) == ()


def test_the_identity_tells_an_index_from_a_former_one_of_its_name() -> None:
    index = keys(("id", "exact"))
    before = index_identity(made(index))
    wider = [{**FIELDS[0], "description": "x"}, *FIELDS[1:]]
    assert index_identity(made({**index, "retention_ms": 7_200_000}, fields=wider)) == before
    others = [
        made(keys(("id", "range"))),
        made({**index, "every": "day"}),
        made(index, topic="others"),
        made(index, json_framing="registry"),
        made(index, fields=[*FIELDS, {"name": "note", "type": "string"}]),
        made(index, fields=[{"name": "id", "type": "long", "path": "other"}, *FIELDS[1:]]),
    ]
    assert len({before, *map(index_identity, others)}) == len(others) + 1


@pytest.mark.parametrize(
    "after",
    [
        made(None),
        made(keys(("id", "range"))),
        made({**keys(("id", "exact")), "every": "day"}),
        made(keys(("id", "exact"), ("city", "exact"))),
    ],
)
def test_other_keys_need_another_index(after: TableDefinition) -> None:
    with pytest.raises(AlterationRefused, match="only its retention may change"):
        alterations(made(keys(("id", "exact"))), after)


def test_a_field_is_not_added_to_an_index() -> None:
    more = made(keys(("id", "exact")), fields=[*FIELDS, {"name": "note", "type": "string"}])
    with pytest.raises(AlterationRefused, match="field note cannot be added to an index"):
        alterations(made(keys(("id", "exact"))), more)
