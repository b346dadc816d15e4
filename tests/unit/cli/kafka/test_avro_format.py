"""Avro values in Avro's JSON encoding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastavro")

from bmq.cli.kafka.avro_format import AvroCodec, read_schema
from bmq.cli.kafka.model import KafkaFailed
from bmq.cli.kafka.value_format import BadValue

pytestmark = pytest.mark.unit

FORM = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "data", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
VALUE = {"id": 1, "note": {"string": "né"}, "data": "ÿ\x01", "at": 1_700_000_000_000, "tags": ["a"]}
BYTES = b"\x02\x02\x06n\xc3\xa9\x04\xff\x01\x80\xa0\xab\xfe\xf9b\x02\x02a\x00"


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("avro") / "order.avsc"
    path.write_text(json.dumps(FORM))
    return read_schema(path)


def test_values_in_both_directions(schema: Any) -> None:
    codec = AvroCodec(schema)
    assert codec.encode(VALUE) == codec.parse(json.dumps(VALUE)) == BYTES
    assert codec.decode(BYTES) == VALUE


def test_a_schema_id_stands_before_the_value(schema: Any) -> None:
    codec = AvroCodec(schema, 258)
    assert codec.encode(VALUE) == b"\0\0\0\1\2" + BYTES
    assert AvroCodec(schema, 0).decode(b"\0\0\0\1\2" + BYTES) == VALUE, "any id is read"
    for data in (BYTES, b"", b"\0\0\0\0"):
        with pytest.raises(BadValue, match="no schema id"):
            codec.decode(data)


@given(st.binary(max_size=40))
def test_bytes_that_are_not_avro_are_refused(schema: Any, data: bytes) -> None:
    codec = AvroCodec(schema)
    try:
        value = codec.decode(data)
    except BadValue as refused:
        assert str(refused).startswith("it is not Avro of this schema: ")
    else:
        assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize("data", [b"", BYTES[:-1], BYTES + b"\0"])
def test_a_value_that_is_cut_or_too_long_is_refused(schema: Any, data: bytes) -> None:
    with pytest.raises(BadValue, match="it is not Avro of this schema"):
        AvroCodec(schema).decode(data)


@pytest.mark.parametrize("value", [None, [], {}, "x", VALUE | {"note": "plain"}, VALUE | {"id": "x"}])
def test_a_value_of_another_form_is_refused(schema: Any, value: Any) -> None:
    with pytest.raises(BadValue, match="it does not fit the Avro schema"):
        AvroCodec(schema).encode(value)


@pytest.mark.parametrize("content", ["", "{", '{"type":"foo"}', '["nothing"]', "[" * 2_000_000])
def test_a_file_that_is_no_schema_is_one_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "bad.avsc"
    path.write_text(content)
    with pytest.raises(KafkaFailed, match=r"bad\.avsc"):
        read_schema(path)
    with pytest.raises(KafkaFailed, match="cannot read"):
        read_schema(tmp_path)


NODE = {"type": "record", "name": "a.Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
EMPTY = {"type": "record", "name": "Empty", "fields": []}


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (NODE, "a.Node contains itself, which is not read here"),
        ({"type": "record", "name": "R", "fields": [{"name": "r", "type": "R"}]}, "R contains itself"),
        ({"type": "array", "items": "null"}, "an array of items without bytes has no bounds"),
        ({"type": "array", "items": EMPTY}, "an array of items without bytes has no bounds"),
        (["null", {"type": "map", "values": {"type": "array", "items": EMPTY}}], "an array of items without bytes"),
    ],
)
def test_a_schema_whose_values_could_end_the_process_is_refused(tmp_path: Path, form: Any, why: str) -> None:
    path = tmp_path / "bad.avsc"
    path.write_text(json.dumps(form))
    with pytest.raises(KafkaFailed, match=why):
        read_schema(path)


def test_a_schema_that_names_a_type_again_is_read(tmp_path: Path) -> None:
    fields = [{"name": "a", "type": EMPTY}, {"name": "b", "type": ["null", "Empty"]}, {"name": "c", "type": "int"}]
    path = tmp_path / "good.avsc"
    path.write_text(json.dumps({"type": "array", "items": {"type": "record", "name": "Two", "fields": fields}}))
    assert AvroCodec(read_schema(path)).decode(b"\2\0\2\0") == [{"a": {}, "b": None, "c": 1}]
