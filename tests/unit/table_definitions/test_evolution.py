"""What may change of a table that has data, and why nothing else may."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from bmq.table_definitions.definition import TableDefinition
from bmq.table_definitions.evolution import AlterationRefused, alterations
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


def with_field(name: str, **changed: Any) -> TableDefinition:
    fields = [{**each, **changed} if each["name"] == name else each for each in json_form()["fields"]]
    return definition(fields=fields)


def refusal(old: TableDefinition, new: TableDefinition) -> str:
    with pytest.raises(AlterationRefused) as caught:
        alterations(old, new)
    return str(caught.value)


@given(definitions())
def test_nothing_changes_to_itself(table: TableDefinition) -> None:
    assert alterations(table, TableDefinition.from_json(table.to_json())) == ()


@given(definitions(), st.data())
def test_fields_may_be_added_and_not_taken_away(table: TableDefinition, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(table.fields)))
    fewer = TableDefinition.model_construct(
        **{**dict(table), "fields": tuple(each.model_copy(update={"required": False}) for each in table.fields[:count])}
    )
    more = TableDefinition.model_construct(
        **{**dict(table), "fields": tuple(each.model_copy(update={"required": False}) for each in table.fields)}
    )
    added = [each.name for each in table.fields[count:]]
    assert [sentence.split()[1] for sentence in alterations(fewer, more)] == added
    if added:
        assert refusal(more, fewer).startswith(f"field {added[0]} is missing")


@pytest.mark.parametrize(
    ("new", "changes"),
    [
        (definition(fields=[*json_form()["fields"], {"name": "note", "type": "string"}]), ("field note (string) is added; rows that are there have null",)),
        (with_field("price", type="decimal(12,2)"), ("field price becomes a decimal(12,2)",)),
        (with_field("id", required=False), ("field id is no longer required",)),
        (with_field("id", description="The order's."), ("the description of field id is another",)),
        (with_field("id", path="id"), ()),
        (definition(description="Orders."), ("the table's description is another",)),
        (definition(misfits="stop"), ("records that do not fit stop the job",)),
        (definition(dead_letter="orders_dead_letter"), ()),
        (definition(fields=json_form()["fields"][::-1]), ()),
        (
            definition(fields=[*json_form()["fields"], {"name": "part", "type": "int", "source": "partition", "required": True}]),
            ("field part (int) is added; rows that are there have null",),
        ),
    ],
)  # fmt: skip
def test_what_may_change(new: TableDefinition, changes: tuple[str, ...]) -> None:
    assert alterations(definition(), new) == changes


def test_records_that_do_not_fit_may_be_kept_from_now_on() -> None:
    changes = alterations(definition(misfits="stop"), definition(dead_letter="bad"))
    assert changes == ("records that do not fit go to bad",)


@pytest.mark.parametrize(
    ("new", "sentence"),
    [
        (definition(name="other"), "name is orders and stays so: a table keeps its name"),
        (definition(topic="other"), "topic is shop.orders and stays so: "),
        (definition(partitioning=[]), "partitioning is day of at, bucket of id and stays so: "),
        (definition(changes={"key": ["id"]}), "changes is None and stays so: rows were written so; make another table"),
        (definition(starting_offsets="latest"), "starting_offsets is earliest and stays so: "),
        (definition(dead_letter="bad"), "dead_letter is orders_dead_letter and stays so: "),
        (
            definition(fields=json_form()["fields"][:1] + json_form()["fields"][2:]),
            "field city is missing: columns are neither dropped nor renamed",
        ),
        (with_field("price", type="decimal(9,2)"), "field price is a decimal(10,2) and cannot become a decimal(9,2): "),
        (with_field("price", type="decimal(12,3)"), "field price is a decimal(10,2) and cannot become a "),
        (with_field("price", required=True), "field price cannot become required: rows that are there may lack it"),
        (with_field("city", path="city"), "field city would take its values from elsewhere than in the rows"),
        (with_field("city", path=[], source="key"), "field city would take its values from elsewhere"),
        (
            definition(fields=[*json_form()["fields"], {"name": "note", "type": "string", "required": True}]),
            "field note cannot be required: rows that are there do not have it",
        ),
    ],
)
def test_what_may_not_change(new: TableDefinition, sentence: str) -> None:
    assert refusal(definition(), new).startswith(sentence)


@pytest.mark.parametrize(
    ("old", "new", "is_allowed"),
    [("int", "long", True), ("float", "double", True), ("long", "int", False), ("int", "double", False), ("int", "string", False)],
)  # fmt: skip
def test_types_that_become_wider(old: str, new: str, is_allowed: bool) -> None:
    before, after = (definition(fields=[{"name": "a", "type": each}], partitioning=[]) for each in (old, new))
    if is_allowed:
        assert alterations(before, after) == (f"field a becomes a {new}",)
    else:
        assert refusal(before, after).startswith(f"field a is a {old} and cannot become a {new}")


def test_avro_schemas() -> None:
    newer = {**ORDER_SCHEMA, "fields": [*ORDER_SCHEMA["fields"], {"name": "note", "type": "string"}]}
    bare, bare_newer, by_id, by_ids, changed = (
        TableDefinition.model_validate(avro_form(**avro))
        for avro in (
            {"writer_schema": ORDER_SCHEMA},
            {"writer_schema": newer},
            {"writer_schemas": {"1": ORDER_SCHEMA}},
            {"writer_schemas": {"1": ORDER_SCHEMA, "2": newer}},
            {"writer_schemas": {"1": newer}},
        )
    )
    assert refusal(bare, bare_newer).startswith("writer_schema stays as it is: a bare Avro value does not say")
    assert refusal(bare, by_id).startswith("writer_schema stays as it is")
    assert alterations(by_id, by_ids) == ("Avro schema 2 is added",)
    assert refusal(by_ids, by_id).startswith("Avro schema 2 stays as it is")
    assert refusal(by_id, changed).startswith("Avro schema 1 stays as it is")


def test_protobuf_messages() -> None:
    old = TableDefinition.model_validate(protobuf_form())
    form = protobuf_form(descriptor_set(extra=True))
    assert alterations(old, TableDefinition.model_validate(form)) == ("values are read by another descriptor set",)
    form["fields"].append({"name": "note", "type": "string"})
    assert alterations(old, TableDefinition.model_validate(form)) == (
        "field note (string) is added; rows that are there have null",
        "values are read by another descriptor set",
    )
    for descriptor in (
        descriptor_set(id_number=9),
        descriptor_set(id_type=FieldDescriptorProto.TYPE_SINT64),
    ):
        other = TableDefinition.model_validate(protobuf_form(descriptor))
        assert refusal(old, other).startswith("field id has another number or type in the new descriptor set")
