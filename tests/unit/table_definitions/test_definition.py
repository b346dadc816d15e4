"""Definitions: what one says, its JSON, and one sentence for each thing that cannot be."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from bmq.table_definitions.definition import (
    DEFINITION_BYTES_MAX,
    Format,
    InvalidDefinition,
    Partitioning,
    Source,
    TableDefinition,
    Transform,
    sentence_of,
)
from tests.unit.table_definitions.definitions import (
    ORDER_SCHEMA,
    avro_form,
    definition,
    definitions,
    descriptor_set,
    json_form,
    protobuf_form,
)

pytestmark = pytest.mark.unit


def refusal(form: Any) -> str:
    with pytest.raises(InvalidDefinition) as caught:
        TableDefinition.from_json(json.dumps(form))
    return str(caught.value)


def test_what_a_definition_says() -> None:
    table = definition()
    assert (table.name, table.topic, table.format) == ("orders", "shop.orders", Format.JSON)
    id_, city, _, at = table.fields
    assert (id_.steps, id_.required, id_.source) == (("id",), True, Source.VALUE)
    assert city.steps == ("customer", "address", "city")
    assert at.source is Source.TIMESTAMP
    assert table.partitioning == (
        Partitioning(by=Transform.DAY, field="at"),
        Partitioning(by=Transform.BUCKET, field="id", buckets=16),
    )
    assert table.dead_letter_table == "orders_dead_letter"
    assert definition(dead_letter="bad").dead_letter_table == "bad"
    assert definition(misfits="stop").dead_letter_table is None
    assert table.field("city") is city
    assert table.field("none") is None


def test_the_example_of_the_documentation_is_one() -> None:
    text = (Path(__file__).parents[3] / "docs/TABLES.md").read_text(encoding="utf-8")
    example = text.partition("```json\n")[2].partition("```")[0]
    assert TableDefinition.from_json(example).dead_letter_table == "orders_dead_letter"


def test_a_name_with_dots_is_written_as_a_list() -> None:
    fields = [{"name": "service", "type": "string", "path": ["resource", "service.name"]}]
    assert definition(fields=fields, partitioning=[]).fields[0].steps == ("resource", "service.name")


@given(definitions())
def test_json_gives_the_same_definition(table: TableDefinition) -> None:
    text = table.to_json()
    assert TableDefinition.from_json(text) == table
    assert TableDefinition.from_json(text.encode()).to_json() == text
    assert TableDefinition.from_json(table.to_json(indent=2)) == table


@pytest.mark.parametrize("form", [avro_form(), avro_form(writer_schemas={"7": ORDER_SCHEMA}), protobuf_form()])
def test_json_gives_the_same_definition_with_schemas(form: Any) -> None:
    table = TableDefinition.from_json(json.dumps(form))
    assert TableDefinition.from_json(table.to_json()) == table


def test_schemas_by_id() -> None:
    table = TableDefinition.model_validate(avro_form(writer_schemas={"7": ORDER_SCHEMA, "300": ORDER_SCHEMA}))
    assert table.avro is not None
    assert table.avro.by_id == {7: ORDER_SCHEMA, 300: ORDER_SCHEMA}


def test_a_field_may_be_in_the_newer_schemas_only() -> None:
    newer = {**ORDER_SCHEMA, "fields": [*ORDER_SCHEMA["fields"], {"name": "note", "type": "string"}]}
    form = avro_form(writer_schemas={"1": ORDER_SCHEMA, "2": newer})
    form["fields"].append({"name": "note", "type": "string"})
    TableDefinition.model_validate(form)
    form["fields"].append({"name": "never", "type": "string"})
    assert refusal(form) == "field never: Avro schema 2: it has no never"
    form["fields"] = [{"name": "note", "type": "long"}]
    assert refusal(form) == "field note: Avro schema 2: note is a string there, which does not fit long"


def test_the_descriptor_set_as_bytes() -> None:
    table = TableDefinition.model_validate(protobuf_form())
    assert table.protobuf is not None
    assert len(FileDescriptorSet.FromString(table.protobuf.descriptor_bytes).file) == 2


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"colour": "red"}, "there is no key colour"),
        ({"name": None}, "name: Input should be a valid string"),
        ({"name": "Orders"}, "name: 'Orders' is no such name: small letters, digits and underscores"),
        ({"topic": "a b"}, "topic: 'a b' is no such name: letters, digits, dots"),
        ({"format": "xml"}, "format: Input should be 'json', 'avro', 'protobuf' or 'raw'"),
        ({"fields": []}, "fields: Tuple should have at least 1 item"),
        ({"fields": [{"name": "a"}]}, "fields.0.type is missing"),
        ({"fields": [{"name": "a", "type": "long", "x": 1}]}, "there is no key fields.0.x"),
        ({"fields": [{"name": "a", "type": "varchar"}]}, "fields.0.type: varchar is no type; there are boolean, int"),
        (
            {"fields": [{"name": "a", "type": "decimal(39,2)"}]},
            "fields.0.type: decimal(39,2) is no type: a decimal has",
        ),
        ({"fields": [{"name": "a", "type": "decimal(3,4)"}]}, "fields.0.type: decimal(3,4) is no type"),
        ({"fields": [{"name": "1a", "type": "long"}]}, "fields.0.name: '1a' is no such name"),
        (
            {"fields": [{"name": "a", "type": "long", "required": "yes"}]},
            "fields.0.required: Input should be a valid bo",
        ),
        ({"fields": [{"name": "a", "type": "long", "path": "a..b"}]}, "fields.0.path.1: String should have at least 1"),
        (
            {"fields": [{"name": "a", "type": "long"}, {"name": "A", "type": "long"}]},
            "field a is there more than once (small and capital letters count as the same)",
        ),
        (
            {"fields": [{"name": "_bmq_offset", "type": "long"}]},
            "fields.0: field _bmq_offset: names that begin with _bmq are kept for the job",
        ),
        (
            {"fields": [{"name": "k", "type": "long", "source": "key"}]},
            "fields.0: field k: the key of a record is a string or a binary, not a long",
        ),
        (
            {"fields": [{"name": "o", "type": "long", "source": "offset", "path": "x"}]},
            "fields.0: field o: the offset of a record has no path",
        ),
        (
            {"fields": [{"name": "h", "type": "string", "source": "header", "path": "a.b"}]},
            "fields.0: field h: a header has one name; write one with dots as a list",
        ),
        (
            {"fields": [{"name": "a", "type": "long", "unit": "ms"}]},
            "fields.0: field a: only a timestamp out of the value has a unit",
        ),
        (
            {"partitioning": [{"by": "day", "field": "none"}]},
            "partitioning by day: there is no field none",
        ),
        ({"partitioning": [{"by": "day", "field": "id"}]}, "partitioning by day: field id is a long, not a timestamp"),
        (
            {"partitioning": [{"by": "hour", "field": "at"}, {"by": "day", "field": "at"}]},
            "partitioning by time of at is there more than once",
        ),
        (
            {"partitioning": [{"by": "bucket", "field": "id"}]},
            "partitioning.0: partitioning: by bucket needs the number of buckets, and nothing else has one",
        ),
        (
            {"partitioning": [{"by": "bucket", "field": "id", "buckets": "4"}]},
            "partitioning.0.buckets: Input should be a valid integer",
        ),
        (
            {
                "partitioning": [{"by": "bucket", "field": "f", "buckets": 4}],
                "fields": [{"name": "f", "type": "float"}],
            },
            "partitioning by bucket: field f is a float, which has no buckets",
        ),
        (
            {
                "partitioning": [{"by": "day", "field": "at"}],
                "fields": [{"name": "at", "type": "date"}, {"name": "at_day", "type": "long"}],
            },
            "partitioning by day of at is called at_day, and so is a field; rename that",
        ),
        (
            {"avro": {"writer_schema": ORDER_SCHEMA}},
            "avro says how values are written, so it is given when the format is",
        ),
        ({"format": "avro"}, "avro says how values are written"),
        ({"format": "protobuf"}, "protobuf says how values are written"),
        ({"format": "raw"}, "field id: a raw value is one string or binary, so it has no path and no other type"),
        ({"misfits": "stop", "dead_letter": "bad"}, "dead_letter names a table for records that do not fit, but"),
        ({"dead_letter": "orders"}, "dead_letter is the table itself; records that do not fit need another one"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], sentence: str) -> None:
    assert refusal({**json_form(), **changed}).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "the definition is no JSON: EOF while parsing a value"),
        ("[1", "the definition is no JSON: "),
        ("[]", "Input should be an object"),
        ("[" * 10_000, "the definition is no JSON: "),
        ('"' + "x" * DEFINITION_BYTES_MAX, f"the definition has {DEFINITION_BYTES_MAX + 1} bytes, "),
    ],
)
def test_what_is_no_definition_at_all(text: str, sentence: str) -> None:
    with pytest.raises(InvalidDefinition) as caught:
        TableDefinition.from_json(text)
    assert str(caught.value).startswith(sentence)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(("type", "name", "fields", "items", "values", "namespace", "logicalType", "x")), inner | st.sampled_from(("record", "enum", "array", "map", "long", "a")), max_size=4), max_leaves=12))  # fmt: skip
def test_any_avro_schema_is_taken_or_refused_with_a_sentence(schema: Any) -> None:
    for avro in ({"writer_schema": schema}, {"writer_schemas": {"1": schema}}):
        form = {**avro_form(), "avro": avro}
        try:
            TableDefinition.model_validate(form)
        except ValidationError as error:
            assert sentence_of(error.errors())


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"name": "none", "type": "long"}, "it has no none"),
        ({"name": "id", "type": "int"}, "id is a long there, which does not fit int"),
        ({"name": "tags", "type": "string"}, "tags is an array there, which does not fit string"),
        ({"name": "at", "type": "timestamp", "unit": "ms"}, None),
        ({"name": "id", "type": "timestamp", "unit": "us"}, None),
        ({"name": "id", "type": "timestamp"}, "id is a long there, which does not fit timestamp"),
        ({"name": "price", "type": "decimal(12,2)"}, None),
        (
            {"name": "price", "type": "decimal(12,3)"},
            "price is a bytes (decimal) there, which does not fit decimal(12,3)",
        ),
        ({"name": "price", "type": "binary"}, "price is a bytes (decimal) there, which does not fit binary"),
        ({"name": "x", "type": "string", "path": "id.x"}, "id is no record there, so it has no x"),
        ({"name": "count", "type": "long"}, None),
    ],
)
def test_fields_and_an_avro_schema(field: dict[str, Any], sentence: str | None) -> None:
    form = {**avro_form(), "fields": [field]}
    if sentence is None:
        assert TableDefinition.model_validate(form).fields[0].name == field["name"]
    else:
        assert refusal(form) == f"field {field['name']}: the Avro schema: {sentence}"


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ("string", "its type is no record"),
        ({"type": "record", "name": "A"}, "record A has no list of fields"),
        ({"type": "record", "fields": []}, "a record has no name"),
        (
            {"type": "record", "name": "A", "fields": [{"name": "id", "type": "long"}] * 2},
            "record A has id more than once",
        ),
        ({"type": "record", "name": "A", "fields": [{"name": "id"}]}, "a field of record A has no name or no type"),
        ({"type": "record", "name": "A", "fields": [{"name": "id", "type": "B"}]}, "B is no type of Avro, and nothing"),
        ({"type": "record", "name": "A", "fields": [{"name": "id", "type": {"type": "array"}}]}, "a schema is a name,"),
        (7, "a schema is a name, a list or an object with a type"),
    ],
)
def test_avro_schemas_that_are_refused(schema: Any, sentence: str) -> None:
    assert refusal(avro_form(writer_schema=schema)).startswith(f"the Avro schema: {sentence}")
    assert refusal(avro_form(writer_schemas={"3": schema})).startswith(f"Avro schema 3: {sentence}")


def test_one_form_of_avro_is_given() -> None:
    wanted = "avro: avro: give either writer_schema, or writer_schemas with the id of each"
    assert refusal({**avro_form(), "avro": {}}) == wanted
    assert refusal(avro_form(writer_schema=ORDER_SCHEMA, writer_schemas={"1": ORDER_SCHEMA})) == wanted


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"name": "none", "type": "long"}, "it has no none"),
        ({"name": "id", "type": "int"}, "id is int64 there, which does not fit int"),
        ({"name": "tags", "type": "string"}, "tags is repeated there, and a column takes one value"),
        ({"name": "customer", "type": "string"}, "customer is a message there; name one of its fields"),
        ({"name": "x", "type": "string", "path": "id.x"}, "id is no message there, so it has no x"),
        ({"name": "id", "type": "timestamp", "unit": "ms"}, None),
        ({"name": "at", "type": "timestamp"}, None),
        ({"name": "seconds", "type": "timestamp", "path": "at.seconds", "unit": "s"}, "at is no message there, so"),
    ],
)
def test_fields_and_a_protobuf_message(field: dict[str, Any], sentence: str | None) -> None:
    form = {**protobuf_form(), "fields": [field]}
    if sentence is None or field["name"] == "seconds":
        assert TableDefinition.model_validate(form).fields[0].name == field["name"]
    else:
        assert refusal(form) == f"field {field['name']}: message shop.Order: {sentence}"


def test_descriptor_sets_that_are_refused() -> None:
    both = FileDescriptorSet.FromString(base64.b64decode(descriptor_set()))
    alone = base64.b64encode(FileDescriptorSet(file=both.file[1:]).SerializeToString()).decode()
    assert refusal(protobuf_form(alone)).startswith(
        "protobuf.descriptor_set: its file 'shop.proto' does not fit the others"
    )
    assert refusal(protobuf_form("AAAA")).startswith("protobuf.descriptor_set: it is no descriptor set; protoc")
    assert refusal(protobuf_form("not Base64!")) == "protobuf.descriptor_set: it is not Base64"
    form = protobuf_form()
    form["protobuf"]["message"] = "shop.None"
    assert refusal(form).startswith("protobuf.descriptor_set: it has no message shop.None")
    form["protobuf"]["message"] = "a b"
    assert refusal(form) == "protobuf.message: 'a b' is no such name: a message's full name is PACKAGE.MESSAGE"


@given(st.binary(max_size=60))
def test_any_descriptor_set_is_taken_or_refused_with_a_sentence(data: bytes) -> None:
    whole = base64.b64decode(descriptor_set())
    for damaged in (data, whole[: len(data) * 4] + data + whole[len(data) * 5 :]):
        try:
            TableDefinition.model_validate(protobuf_form(base64.b64encode(damaged).decode()))
        except ValidationError as error:
            assert sentence_of(error.errors())
