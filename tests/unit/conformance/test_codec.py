"""The codec of the conformance run beside kio's own, and what only it can write."""

from __future__ import annotations

import importlib
import io
import struct
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer

from tests.conformance.codec import (
    Raw,
    Undecodable,
    check_names,
    framed,
    message_body,
    request_body,
    request_frame,
    response_values,
)
from tests.conformance.schemas import CLIENT_APIS, Kind, Schema, api_name, schema, schema_versions

pytestmark = pytest.mark.campaign("unit")

SAMPLES: dict[str, Any] = {
    "int8": 5,
    "int16": 6,
    "int32": 70_000,
    "int64": 2**40,
    "uint16": 40_000,
    "uint32": 2**31,
    "float64": 0.5,
    "bool": True,
    "string": "text",
    "bytes": b"bytes",
    "records": b"records",
    "uuid": uuid.UUID(int=7),
}


def sample(form: Schema) -> dict[str, Any]:
    """A value for every field, tagged ones included."""
    values = {}
    for field in form.fields:
        one: Any = SAMPLES[field.kafka_type] if field.entity is None else sample(form.entities[field.name])
        if "error_code" in field.name:
            one = 3
        values[field.name] = [one, one] if field.is_array else one
    return values


def kio_messages() -> Iterator[tuple[int, int, Kind]]:
    for api_key in CLIENT_APIS:
        if api_key in api_key_map:
            for version in schema_versions(api_key):
                yield api_key, version, "request"
                yield api_key, version, "response"


def kio_class(api_key: int, version: int, kind: Kind) -> Any:
    module = importlib.import_module(f"kio.schema.{api_key_map[api_key]}.v{version}.{kind}")
    return getattr(module, f"{api_name(api_key)}{kind.capitalize()}")


def test_every_message_of_kafka_is_written_as_kio_writes_it() -> None:
    count = 0
    for api_key, version, kind in kio_messages():
        body = message_body(api_key, version, kind, sample(schema(api_key, version, kind)))
        entity = kio_class(api_key, version, kind)
        read, end = entity_reader(entity)(body, 0)
        assert end == len(body), (api_key, version, kind)
        written = io.BytesIO()
        entity_writer(entity)(written, read)
        assert written.getvalue() == body, (api_key, version, kind)
        count += 1
    assert count > 500


def test_every_response_is_read_back_as_it_was_written() -> None:
    for api_key, version, kind in kio_messages():
        if kind == "request":
            continue
        form = schema(api_key, version, kind)
        values = sample(form)
        tags = b"\0" if form.flexible and api_key != 18 else b""
        frame = b"\0\0\0\1" + tags + message_body(api_key, version, kind, values)
        assert response_values(api_key, version, frame) == values, (api_key, version)


def test_what_kafka_4_4_added_is_written() -> None:
    body = request_body(28, 6, {"topics": [{"name": "t", "topic_id": uuid.UUID(int=7), "partitions": []}]})
    assert uuid.UUID(int=7).bytes in body and b"\2t" not in body
    assert request_body(18, 5, {"node_id": 9}).endswith(struct.pack(">i", 9) + b"\0")


def test_null_is_written_where_there_can_be_none() -> None:
    assert request_body(19, 4, {"topics": None, "timeout_ms": 1}) == struct.pack(">iib", -1, 1, 0)
    assert request_body(19, 5, {"topics": None, "timeout_ms": 1}) == b"\0" + struct.pack(">ib", 1, 0) + b"\0"
    assert request_body(17, 1, {"mechanism": None}) == b"\xff\xff"


def test_raw_bytes_stand_in_a_fields_place() -> None:
    assert request_body(17, 1, {"mechanism": Raw(b"\x7f\xffab")}) == b"\x7f\xffab"


def test_a_frame_has_its_length_and_the_header_of_its_version() -> None:
    plain = framed(17, 1, b"body", 5, "me")
    assert plain == struct.pack(">ihhih", 16, 17, 1, 5, 2) + b"mebody"
    flexible = request_frame(3, 9, {}, 5, None)
    assert flexible[4:15] == struct.pack(">hhih", 3, 9, 5, -1) + b"\0"


@pytest.mark.parametrize("change", [lambda body: body[:-1], lambda body: body + b"\0"])
def test_a_response_of_another_length_is_refused(change: Any) -> None:
    body = b"\0\0\0\1\0" + message_body(12, 4, "response", {})
    assert response_values(12, 4, body)["error_code"] == 0
    with pytest.raises(Undecodable):
        response_values(12, 4, change(body))


def test_a_misspelt_field_is_found() -> None:
    check_names(0, {"acks": 1, "topic_data": [{"name": "t", "topic_id": None, "partition_data": [{"index": 0}]}]})
    with pytest.raises(ValueError, match="topic_dta"):
        check_names(0, {"topic_dta": []})
    with pytest.raises(ValueError, match="indx"):
        check_names(0, {"topic_data": [{"partition_data": [{"indx": 0}]}]})
