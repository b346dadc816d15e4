"""Definitions out of a registry's Protobuf schemas: columns, indexes by id, imports, and versions that contradict each other."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st

from bmq.table_definitions.avro_schema import SchemaRefused
from bmq.table_definitions.definition import InvalidDefinition, TableDefinition
from bmq.table_definitions.evolution import AlterationRefused, alterations
from bmq.table_definitions.from_registry import DefinedTable, RegisteredVersion, define_table, refreshed_table
from bmq.table_definitions.protobuf_files import IMPORTS_DEEP_MAX, RegisteredFile
from tests.unit.table_definitions.registered_files import (
    ADDRESS,
    IMPORTS,
    INT32,
    INT64,
    MESSAGE,
    ORDER,
    field,
    file,
    text,
    version,
    with_fields,
)

pytestmark = pytest.mark.unit


def defined(*versions: RegisteredVersion, message: str = "", changes: Any = None) -> DefinedTable:
    return define_table("orders", "shop.orders", "s", versions, changes, message)


def refusal(*versions: RegisteredVersion, message: str = "") -> str:
    with pytest.raises(InvalidDefinition) as found:
        defined(*versions, message=message)
    assert "\n" not in str(found.value)
    return str(found.value)


def columns(table: TableDefinition) -> dict[str, str]:
    return {each.name: each.type for each in table.fields}


def test_columns_are_the_values_of_the_message() -> None:
    table = defined(version(1), message="shop.Order")
    assert columns(table.definition) == {
        "id": "int",
        "at": "timestamp",
        "address_city": "string",
        "address_zip": "int",
        "note_value": "string",
    }
    assert {each.steps: each.why for each in table.left_out} == {
        ("tags",): "no column holds a list or a map",
        ("parent",): "it is nested 32 deep, or contains itself",
    }
    protobuf = table.definition.protobuf
    assert protobuf is not None and protobuf.indexes_by_id == {101: (1,)}
    files = FileDescriptorSet.FromString(protobuf.descriptor_bytes).file
    assert [each.name for each in files[:2]] == ["google/protobuf/timestamp.proto", "common/address.proto"]
    assert "confluent/meta.proto" not in files[-1].dependency
    assert TableDefinition.from_json(table.definition.to_json()) == table.definition


def test_the_first_message_is_taken_and_nested_ones_can_be_named() -> None:
    one = defined(version(1, with_fields(field("id", 1, INT32)), {}))
    assert one.definition.protobuf is not None and one.definition.protobuf.message == "shop.Order"
    line = defined(version(1), message="shop.Order.Line").definition
    assert line.protobuf is not None and line.protobuf.indexes_by_id == {101: (1, 0)}
    without_package = file(DescriptorProto(name="A", field=[field("x", 1)]), package="")
    bare = defined(version(1, without_package, {})).definition
    assert bare.protobuf is not None and bare.protobuf.message == "A"


def test_old_versions_may_have_less_and_the_message_elsewhere() -> None:
    moved = file(
        DescriptorProto(name="Before"), DescriptorProto(name="Order", field=[field("id", 1, INT32), field("more", 2)])
    )
    table = defined(version(1, with_fields(field("id", 1, INT32)), {}), version(2, moved, {}), message="shop.Order")
    assert table.definition.protobuf is not None
    assert table.definition.protobuf.indexes_by_id == {101: (0,), 102: (1,)}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ([field("id", 1, INT32)], [field("id", 2, INT32)], "id has another number or type there"),
        ([field("id", 1, INT64)], [field("id", 1, INT32)], "id has another number or type there"),
        ([field("old", 1)], [field("id", 1, INT32)], "number 1 of id is another field there"),
        ([field("id", 1, is_repeated=True)], [field("id", 1)], "number 1 of id is another field there"),
        ([field("old", 1)], [field("new", 1)], None),
        ([], [field("new", 1)], None),
    ],
)
def test_versions_that_contradict_each_other(old: list[Any], new: list[Any], sentence: str | None) -> None:
    versions = (version(1, with_fields(*old), {}), version(2, with_fields(*new), {}))
    if sentence is None:
        assert defined(*versions).definition
    else:
        assert refusal(*versions) == f"subject s, version 1: {sentence}; name a later version"


def test_refreshing_adds_columns_and_ids() -> None:
    first = defined(version(1, with_fields(field("id", 1, INT32)), {})).definition
    newer = version(2, with_fields(field("id", 1, INT32), field("note", 2)), {})
    table = refreshed_table(first, "s", [newer]).definition
    assert columns(table) == {"id": "int", "note": "string"}
    assert table.protobuf is not None and set(table.protobuf.indexes_by_id) == {101, 102}
    assert alterations(first, table) == (
        "field note (string) is added; rows that are there have null",
        "Protobuf schema 102 is added",
        "values are read by another descriptor set",
    )
    for other in (
        table.protobuf.model_copy(update={"message_indexes": {}}),
        table.protobuf.model_copy(update={"message_indexes": {"101": (1,)}}),
        table.protobuf.model_copy(update={"message_indexes": {"102": (0,)}}),
    ):
        with pytest.raises(AlterationRefused, match=r"Protobuf schema 10|message_indexes"):
            alterations(table, table.model_copy(update={"protobuf": other}))


def test_a_table_of_bare_messages_is_not_refreshed() -> None:
    table = defined(version(1, with_fields(field("id", 1, INT32)), {})).definition
    assert table.protobuf is not None
    bare = table.model_copy(update={"protobuf": table.protobuf.model_copy(update={"message_indexes": {}})})
    assert "message_indexes" not in bare.to_json()
    with pytest.raises(InvalidDefinition, match="without ids of schemas"):
        refreshed_table(bare, "s", [version(2)])


def test_an_envelope_of_debezium() -> None:
    row = DescriptorProto(name="Row", field=[field("id", 1, INT32), field("note", 2)])
    envelope = DescriptorProto(
        name="Envelope",
        field=[field("before", 1, MESSAGE, ".shop.Row"), field("after", 2, MESSAGE, ".shop.Row"), field("op", 3)],
    )
    table = defined(version(1, file(envelope, row), {}), changes={"key": ["id"], "mode": "debezium"}).definition
    assert columns(table) == {"id": "int", "note": "string"}


def many(count: int) -> FileDescriptorProto:
    return with_fields(*(field(f"f{number}", number) for number in range(1, count + 1)))


def chain(length: int) -> dict[str, str]:
    """Files that import each other in a row."""
    return {
        f"{number}.proto": text(file(package=f"p{number}", imports=(f"{number + 1}.proto",)))
        for number in range(length)
    }


@pytest.mark.parametrize(
    ("given", "message", "sentence"),
    [
        (RegisteredVersion(1, 1, "PROTOBUF", 'syntax = "proto3";'), "", "version 1: the registry gives it as text"),
        (RegisteredVersion(1, 1, "PROTOBUF", "////"), "", "version 1: the registry gives it as text"),
        (version(1, file()), "", "version 1: it has no message"),
        (version(1), "shop.Nope", "version 1: it has no message shop.Nope"),
        (version(1), "other.Order", "version 1: it has no message other.Order"),
        (version(1), "shop.Unused", "version 1: it has no value that a column can hold"),
        (version(1, ORDER, {}), "shop.Order", "does not fit the others, or one that it imports is missing"),
        (version(1, many(1_001), {}), "", "version 1: it has more than 1000 values"),
        (
            version(1, file(imports=("a.proto",)), {"a.proto": text(file(imports=("a.proto",)))}), "",
            "its import a.proto leads back to itself",
        ),
        (version(1, file(imports=("0.proto",)), chain(IMPORTS_DEEP_MAX + 1)), "", "its imports are more than 32 deep"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_table_is_one_sentence(given: RegisteredVersion, message: str, sentence: str) -> None:
    assert sentence in refusal(given, message=message)


def test_versions_are_bounded() -> None:
    one = with_fields(field("id", 1, INT32))
    assert refusal(*(version(number, one, {}) for number in range(1, 102))) == (
        "subject s has 101 versions, a table knows 100; name the oldest one to take"
    )


def test_a_message_is_for_protobuf_alone() -> None:
    other = RegisteredVersion(1, 1, "JSON", '{"type": "object", "properties": {"a": {"type": "string"}}}')
    with pytest.raises(InvalidDefinition, match="has no Protobuf schemas"):
        defined(other, message="shop.Order")


def test_messages_that_contain_each_other_end_soon() -> None:
    """Each of 30 messages has all of them as fields: walked without a bound, that has no end."""
    names = [f"M{number}" for number in range(30)]
    messages = [
        DescriptorProto(
            name=name, field=[field(f"f{at}", at + 1, MESSAGE, f".shop.{other}") for at, other in enumerate(names)]
        )
        for name in names
    ]
    assert "more than 1000 values" in refusal(version(1, file(*messages), {}))


@given(st.integers(0, 2**20), st.binary(min_size=1, max_size=8))
def test_damaged_files_are_sentences(at: int, noise: bytes) -> None:
    whole = ORDER.SerializeToString()
    place = at % len(whole)
    damaged = base64.b64encode(whole[:place] + noise + whole[place + len(noise) :]).decode()
    try:
        found = defined(RegisteredVersion(1, 1, "PROTOBUF", damaged, True, IMPORTS), message="shop.Order")
    except InvalidDefinition as error:
        assert len(str(error)) < 1_000
    else:
        assert found.definition.fields


def test_a_public_import_keeps_its_place_when_another_is_left_out() -> None:
    given = file(package="p", imports=("nowhere.proto", "common/address.proto"))
    given.public_dependency.append(1)
    user = file(
        DescriptorProto(name="User", field=[field("address", 1, MESSAGE, ".shop.Address")]),
        imports=("through.proto",),
    )
    made = RegisteredFile(text(user), {"through.proto": text(given), "common/address.proto": text(ADDRESS)})
    assert FileDescriptorSet.FromString(made.descriptor_set).file[1].public_dependency == [0]
    assert defined(
        RegisteredVersion(1, 1, "PROTOBUF", text(user), True, {"through.proto": text(given), **IMPORTS})
    ).definition
    with pytest.raises(SchemaRefused):
        RegisteredFile("=", {})
