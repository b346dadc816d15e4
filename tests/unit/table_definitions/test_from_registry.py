"""Definitions out of a registry's schemas: columns, ids of all versions, and what is refused or left out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.table_definitions.avro_leaves import avro_leaves
from bmq.table_definitions.avro_schema import SchemaRefused
from bmq.table_definitions.definition import Format, InvalidDefinition, JsonFraming, TableDefinition
from bmq.table_definitions.evolution import AlterationRefused, alterations
from bmq.table_definitions.from_registry import RegisteredVersion, define_table, refreshed_table
from bmq.table_definitions.json_schema import json_schema_leaves
from bmq.table_definitions.leaf_columns import Leaf, fields_of
from tests.unit.table_definitions.definitions import json_form

pytestmark = pytest.mark.unit

ADDRESS = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": ["null", "string"]}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "address", "type": ["null", ADDRESS]},
        {"name": "back", "type": ["null", "Address"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A"]}},
        {"name": "either", "type": ["string", "int"]},
    ],
}
JSON_ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": ["number", "null"]},
        "at": {"type": "string", "format": "date-time"},
        "day": {"oneOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
        "address": {"$ref": "#/definitions/Address"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "photo": {"type": "string", "contentEncoding": "base64"},
        "more": {"type": "object"},
        "kind": {"enum": ["A", "B"]},
        "any": {},
        "two": {"type": ["string", "integer"]},
    },
    "definitions": {"Address": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def avro(version: int, schema: Any, **more: Any) -> RegisteredVersion:
    return RegisteredVersion(version, 100 + version, "AVRO", json.dumps(schema), **more)


def of_json(schema: Any, version: int = 1) -> RegisteredVersion:
    return RegisteredVersion(version, version, "JSON", json.dumps(schema))


def columns(definition: TableDefinition) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {each.name: (each.type, each.steps) for each in definition.fields}


def test_an_avro_subject() -> None:
    defined = define_table(
        "orders", "shop.orders", "s", [avro(1, {**ORDER, "fields": ORDER["fields"][:2]}), avro(2, ORDER)]
    )
    assert columns(defined.definition) == {
        "id": ("int", ("id",)),
        "price": ("decimal(10,2)", ("price",)),
        "at": ("timestamp", ("at",)),
        "day": ("date", ("day",)),
        "address_city": ("string", ("address", "city")),
        "back_city": ("string", ("back", "city")),
        "kind": ("string", ("kind",)),
    }
    assert [".".join(each.steps) for each in defined.left_out] == ["tags", "either"]
    assert defined.definition.avro is not None and set(defined.definition.avro.by_id) == {101, 102}
    assert not any(each.required for each in defined.definition.fields)
    assert defined.definition.topic == "shop.orders"


def test_a_json_subject() -> None:
    defined = define_table("orders", "shop.orders", "s", [of_json(JSON_ORDER)])
    assert columns(defined.definition) == {
        "id": ("long", ("id",)),
        "price": ("double", ("price",)),
        "at": ("timestamp", ("at",)),
        "day": ("date", ("day",)),
        "address_city": ("string", ("address", "city")),
        "tags": ("string", ("tags",)),
        "photo": ("binary", ("photo",)),
        "more": ("string", ("more",)),
        "kind": ("string", ("kind",)),
    }
    assert [each.steps for each in defined.left_out] == [("any",), ("two",)]
    assert defined.definition.json_framing is JsonFraming.REGISTRY


def test_a_refresh_adds_columns_and_ids_and_keeps_the_rest() -> None:
    first = define_table("orders", "o", "s", [avro(1, ORDER)]).definition
    form = json.loads(first.to_json())
    form["fields"][0]["name"] = "number"
    form["fields"][0]["path"] = ["id"]
    form["partitioning"] = [{"by": "day", "field": "at"}]
    form["fields"].append({"name": "trace", "type": "string", "source": "header"})
    present = TableDefinition.from_json(json.dumps(form))
    wider = [{"name": "id", "type": "long"}, *ORDER["fields"][1:], {"name": "Trace", "type": ["null", "string"]}]
    newest = avro(2, {**ORDER, "fields": wider})
    with pytest.raises(InvalidDefinition, match=r"Avro schema 101|Avro schema 102"):
        define_table("orders", "o", "s", [avro(1, {**ORDER, "fields": [{"name": "id", "type": "string"}]}), newest])
    refreshed = refreshed_table(present, "s", [avro(1, ORDER), newest]).definition
    assert columns(refreshed)["number"] == ("long", ("id",))
    assert columns(refreshed)["Trace_2"] == ("string", ("Trace",))
    assert list(alterations(present, refreshed)) == [
        "field number becomes a long",
        "field Trace_2 (string) is added; rows that are there have null",
        "Avro schema 102 is added",
    ]
    assert refreshed_table(refreshed, "s", [avro(1, ORDER), newest]).definition == refreshed
    late = refreshed_table(present, "s", [newest]).definition
    assert late.avro is not None and set(late.avro.by_id) == {101, 102}, "ids that are in use stay"


def test_an_envelope_gives_the_columns_of_its_row() -> None:
    row: dict[str, Any] = {**ORDER, "name": "Value"}
    fields: list[dict[str, Any]] = [
        {"name": "before", "type": ["null", row]},
        {"name": "after", "type": ["null", "shop.Value"]},
    ]
    envelope = {"type": "record", "name": "Envelope", "fields": [*fields, {"name": "op", "type": "string"}]}
    changes = {"key": ["id"], "mode": "debezium"}
    defined = define_table("orders", "o", "s", [avro(1, envelope)], changes)
    plain = define_table("orders", "o", "s", [avro(1, ORDER)])
    assert columns(defined.definition) == columns(plain.definition)
    assert [each.steps for each in defined.left_out] == [each.steps for each in plain.left_out]
    more = {"name": "note", "type": ["null", "string"]}
    newest = {**envelope, "fields": [{**fields[0], "type": ["null", {**row, "fields": [*ORDER["fields"], more]}]}, *envelope["fields"][1:]]}  # fmt: skip
    refreshed = refreshed_table(defined.definition, "s", [avro(1, envelope), avro(2, newest)]).definition
    assert columns(refreshed).keys() - columns(defined.definition).keys() == {"note"}
    with pytest.raises(InvalidDefinition, match="no record after, so it is no envelope of Debezium"):
        define_table("orders", "o", "s", [avro(1, ORDER)], changes)


@pytest.mark.parametrize(
    ("versions", "sentence"),
    [
        ([], "has no version"),
        ([RegisteredVersion(1, 1, "THRIFT", "struct")], "of type THRIFT"),
        ([of_json(JSON_ORDER), avro(2, ORDER)], "version 1 of type JSON beside AVRO"),
        ([avro(1, ORDER, has_references=True)], "refers to other subjects"),
        ([RegisteredVersion(1, 1, "AVRO", "{")], "its schema is no JSON"),
        ([RegisteredVersion(1, 1, "AVRO", "string")], "its type is no record"),
        ([avro(1, {**ORDER, "fields": ORDER["fields"][6:7]})], "no value that a column can hold"),
        ([of_json({"type": "string"})], "no objects with known properties"),
        ([of_json({"properties": {"a": {"$ref": "other.json"}}})], "refers to another schema"),
        ([of_json({"properties": {"a": {"$ref": "#/definitions/A"}}})], "which is not in it"),
        ([of_json({"properties": {"a": {"$ref": "#/properties/a"}}})], "leads to itself"),
        ([of_json({"properties": {f"p{n}": {"type": "string"} for n in range(1_001)}})], "more than 1000 values"),
        ([avro(n, ORDER) for n in range(1, 102)], "has 101 versions"),
    ],
)
def test_what_cannot_be_defined_is_a_sentence(versions: list[RegisteredVersion], sentence: str) -> None:
    with pytest.raises(InvalidDefinition) as raised:
        define_table("orders", "o", "s", versions)
    assert sentence in str(raised.value) and "\n" not in str(raised.value)


def test_a_schema_that_contains_itself_ends() -> None:
    node = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "id", "type": "long"}, {"name": "next", "type": ["null", "Node"]}],
    }
    found = avro_leaves(node)
    assert len(found.leaves) == 14 and len(found.left_out) == 1
    form = {"properties": {"id": {"type": "integer"}, "next": {"$ref": "#"}}}
    assert len(json_schema_leaves(form).left_out) == 1
    wide = {**node, "fields": [*node["fields"], *({"name": f"n{n}", "type": ["null", "Node"]} for n in range(9))]}
    with pytest.raises(SchemaRefused, match="more than 1000 values"):
        avro_leaves(wide)


def test_a_table_without_ids_is_not_refreshed() -> None:
    plain = TableDefinition.model_validate(json_form())
    with pytest.raises(InvalidDefinition, match="reads json without ids of schemas"):
        refreshed_table(plain, "s", [of_json(JSON_ORDER)])
    with pytest.raises(InvalidDefinition, match="define another table"):
        refreshed_table(define_table("o", "o", "s", [of_json(JSON_ORDER)]).definition, "s", [avro(1, ORDER)])


@given(st.lists(st.lists(st.text(max_size=200), min_size=1, max_size=4).map(tuple), unique=True, max_size=12))
def test_every_path_gets_a_name_of_its_own(paths: list[tuple[str, ...]]) -> None:
    possible = [path for path in paths if all(0 < len(step) <= 255 for step in path)]
    fields = fields_of(Leaf(path, "string") for path in possible)
    assert [each.steps for each in fields] == possible
    assert len({each.name.lower() for each in fields}) == len(possible)


def test_framing_is_left_out_where_there_is_none() -> None:
    """Releases before it refuse a key that they do not know."""
    plain = TableDefinition.model_validate(json_form())
    assert "json_framing" not in json.loads(plain.to_json())
    framed = TableDefinition.model_validate({**json_form(), "json_framing": "registry"})
    assert json.loads(framed.to_json())["json_framing"] == "registry"
    assert TableDefinition.from_json(framed.to_json()) == framed
    with pytest.raises(AlterationRefused, match="json_framing is None and stays so"):
        alterations(plain, framed)
    with pytest.raises(InvalidDefinition, match="given when the format is json"):
        TableDefinition.from_json(
            json.dumps(
                {
                    "name": "a",
                    "topic": "o",
                    "format": "raw",
                    "json_framing": "registry",
                    "fields": [{"name": "v", "type": "binary"}],
                }
            )
        )
    assert framed.format is Format.JSON
