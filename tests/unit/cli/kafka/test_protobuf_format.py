"""Protobuf values in Protobuf's JSON mapping."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from bmq.cli.kafka.model import KafkaFailed
from bmq.cli.kafka.protobuf_format import SCHEMA_BYTES_MAX, ProtobufCodec, read_message
from bmq.cli.kafka.schema_codec import schema_codec
from bmq.cli.kafka.value_format import BadValue, ValueFormat
from tests.unit.table_definitions.definitions import descriptor_set

pytestmark = pytest.mark.unit

VALUE = {"id": "7", "at": "2026-11-24T10:00:00Z", "customer": {"name": "né"}, "tags": ["a"]}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("protobuf") / "shop.pb"
    made.write_bytes(base64.b64decode(descriptor_set()))
    return made


@pytest.fixture(scope="module")
def order(path: Path) -> Any:
    return read_message(path, "shop.Order")


def test_values_in_both_directions(order: Any) -> None:
    codec = ProtobufCodec(order)
    data = codec.encode(VALUE)
    assert codec.decode(data) == VALUE
    assert codec.parse(json.dumps(VALUE)) == data
    assert codec.decode(b"") == {}


def test_a_schema_id_and_indexes_stand_before_the_value(path: Path, order: Any) -> None:
    codec = ProtobufCodec(order, 258)
    data = codec.encode(VALUE)
    assert data.startswith(b"\0\0\0\1\2\0\x08\7")
    assert ProtobufCodec(order, 0).decode(data) == VALUE, "any id is read"
    customer = ProtobufCodec(read_message(path, "shop.Customer"), 1)
    assert customer.encode({"name": "x"}) == b"\0\0\0\0\1\2\2\x0a\1x"
    with pytest.raises(BadValue, match="no schema id"):
        codec.decode(ProtobufCodec(order).encode(VALUE))


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(order: Any, data: bytes) -> None:
    codec = ProtobufCodec(order)
    try:
        value = codec.decode(data)
    except BadValue as refused:
        assert str(refused).startswith("it is no message shop.Order: ")
    else:
        assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("text", ['{"idd": 1}', '{"id": "x"}', "[]", "7", '{"at": "soon"}', '{"id": 1e30}'])
def test_a_text_that_does_not_fit_is_refused(order: Any, text: str) -> None:
    with pytest.raises(BadValue, match="does not fit the message"):
        ProtobufCodec(order).parse(text)


def test_a_schema_that_cannot_be_used_is_a_sentence(path: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text('syntax = "proto3";')
    (tmp_path / "long").write_bytes(bytes(SCHEMA_BYTES_MAX + 1))
    for given_path, message, sentence in (
        (tmp_path / "none", "A", "cannot read"),
        (tmp_path / "text", "A", "it is no descriptor set"),
        (tmp_path / "long", "A", "has more than 1048576 bytes"),
        (path, "shop.None", "it has no message shop.None"),
    ):
        with pytest.raises(KafkaFailed, match=sentence):
            read_message(given_path, message)


def test_options_that_do_not_belong_together(path: Path) -> None:
    codec = schema_codec(ValueFormat.PROTOBUF_ID, path, "shop.Order", 5, "--value", is_written=True)
    assert codec.encode({}) == b"\0\0\0\0\5\0"
    cases: list[tuple[ValueFormat, Path | None, str, int | None, str]] = [
        (ValueFormat.PROTOBUF, None, "shop.Order", None, "names the schema's file"),
        (ValueFormat.PROTOBUF, path, "", None, "names the message in the schema"),
        (ValueFormat.AVRO, path, "shop.Order", None, "is for Protobuf"),
        (ValueFormat.TEXT, path, "", None, "is for the formats avro and avro-id, protobuf and protobuf-id"),
        (ValueFormat.PROTOBUF, path, "shop.Order", 5, "wanted for the formats avro-id and protobuf-id"),
    ]
    for value_format, schema, message, schema_id, sentence in cases:
        with pytest.raises(typer.BadParameter, match=sentence):
            schema_codec(value_format, schema, message, schema_id, "--value")
