"""What a channel of Protobuf messages says of values and of schemas."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto, FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st

from bmq.channels.channel import Channel, InvalidChannel, channel_to_json, parse_channel
from bmq.channels.value_schema import ValueCheck
from tests.unit.channels.channels import channel
from tests.unit.table_definitions.definitions import descriptor_set
from tests.unit.table_definitions.registered_files import INT32, MESSAGE, field

pytestmark = pytest.mark.unit

ORDER = {"message": "shop.Order", "descriptor_set": descriptor_set()}


def with_schema(schema: Any = ORDER) -> Channel:
    return channel(schema_check="protobuf", protobuf=schema)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"\x08\x07", None),
        (b"", None),
        (b"\x2a\x02\x0a\x00", None),
        (b"\x08", "the value is no message shop.Order"),
        (b'{"id": 7}', "the value is no message shop.Order"),
        (b"\x48\x07", "the value has a field 9 that shop.Order does not have"),
        (b"\x2a\x02\x10\x01", "the value has a field 2 that shop.Customer does not have"),
        (None, "the record has no value, and the channel takes messages shop.Order"),
    ],
)
def test_values(value: bytes | None, problem: str | None) -> None:
    assert ValueCheck(with_schema()).problem_of(value) == problem


def test_unknown_fields_are_found_within_lists_and_maps() -> None:
    entry = DescriptorProto(name="FsEntry", field=[field("key", 1, INT32), field("value", 2, MESSAGE, ".A.B")])
    entry.options.map_entry = True
    plain = DescriptorProto(name="PsEntry", field=[field("key", 1, INT32), field("value", 2, INT32)])
    plain.options.map_entry = True
    message = DescriptorProto(
        name="A",
        field=[
            field("list", 1, MESSAGE, ".A.B", is_repeated=True),
            field("fs", 2, MESSAGE, ".A.FsEntry", is_repeated=True),
            field("ps", 3, MESSAGE, ".A.PsEntry", is_repeated=True),
        ],
        nested_type=[DescriptorProto(name="B", field=[field("x", 1, INT32)]), entry, plain],
    )
    files = FileDescriptorSet(file=[FileDescriptorProto(name="a.proto", syntax="proto3", message_type=[message])])
    data = base64.b64encode(files.SerializeToString()).decode()
    check = ValueCheck(with_schema({"message": "A", "descriptor_set": data}))
    known, unknown = b"\x08\x01", b"\x10\x01"
    assert (
        check.problem_of(b"\x0a\x02" + known + b"\x12\x06\x08\x01\x12\x02" + known + b"\x1a\x04\x08\x01\x10\x05")
        is None
    )
    for value in (b"\x0a\x02" + unknown, b"\x12\x06\x08\x01\x12\x02" + unknown):
        assert check.problem_of(value) == "the value has a field 2 that A.B does not have"


@given(st.binary(max_size=60))
def test_any_bytes_are_taken_or_refused_with_a_sentence(value: bytes) -> None:
    why = CHECK.problem_of(value)
    assert why is None or why.startswith("the value ")


CHECK = ValueCheck(with_schema())


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({**ORDER, "message": "shop.None"}, "protobuf.descriptor_set: it has no message shop.None"),
        ({**ORDER, "descriptor_set": "////"}, "protobuf.descriptor_set: it is no descriptor set"),
        (
            {
                **ORDER,
                "descriptor_set": base64.b64encode(
                    FileDescriptorSet(
                        file=[FileDescriptorProto(name="a.proto", dependency=["b.proto"])]
                    ).SerializeToString()
                ).decode(),
            },
            "protobuf.descriptor_set: its file 'a.proto' does not fit the others",
        ),
    ],
)
def test_what_is_no_schema_is_one_sentence(schema: Any, sentence: str) -> None:
    with pytest.raises(InvalidChannel) as found:
        ValueCheck(with_schema(schema))
    assert str(found.value).startswith(sentence)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"schema_check": "protobuf"}, "schema_check is protobuf, so protobuf must be given"),
        ({"protobuf": ORDER}, "protobuf is given, but schema_check is not protobuf"),
        ({"schema_check": "protobuf", "protobuf": {**ORDER, "message": "a b"}}, "protobuf.message: 'a b' is no such name"),
        ({"schema_check": "protobuf", "protobuf": {**ORDER, "descriptor_set": "?"}}, "protobuf.descriptor_set: it is not"),
    ],
)  # fmt: skip
def test_what_does_not_belong_together(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidChannel) as found:
        parse_channel({"name": "c", "topic": "t", **given})
    assert str(found.value).startswith(sentence)


def test_the_form_has_the_key_only_where_it_is_given() -> None:
    assert "protobuf" not in channel_to_json(channel())
    form = channel_to_json(with_schema())
    assert form["protobuf"] == ORDER
    assert parse_channel(form) == with_schema()
