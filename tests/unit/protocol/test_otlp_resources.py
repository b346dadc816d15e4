"""Attributes on clients' metrics: protobuf's own reader is the oracle; and hostile bytes take neither memory nor time."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.errors import MalformedMessage
from bmq.protocol.otlp_resources import FIELDS_MAX, RESOURCES_MAX, with_attributes

pytestmark = pytest.mark.unit

_MESSAGES: dict[str, list[tuple[str, int, str | None, bool]]] = {
    "AnyValue": [("string_value", 1, None, False)],
    "KeyValue": [("key", 1, None, False), ("value", 2, "AnyValue", False)],
    "Resource": [("attributes", 1, "KeyValue", True)],
    "ScopeMetrics": [("schema_url", 3, None, False)],
    "ResourceMetrics": [("resource", 1, "Resource", False), ("scope_metrics", 2, "ScopeMetrics", True)],
    "MetricsData": [("resource_metrics", 1, "ResourceMetrics", True)],
}


def metrics_class() -> Any:
    """The part of OpenTelemetry's metrics.proto that is looked at."""
    file = FileDescriptorProto(name="otlp.proto", package="o", syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, is_repeated in fields:
            added = message.field.add(
                name=field,
                number=number,
                type=FieldDescriptorProto.TYPE_MESSAGE if kind else FieldDescriptorProto.TYPE_STRING,
                label=FieldDescriptorProto.LABEL_REPEATED if is_repeated else FieldDescriptorProto.LABEL_OPTIONAL,
            )
            if kind:
                added.type_name = f".o.{kind}"
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("o.MetricsData"))


METRICS = metrics_class()
TEXTS = st.text(max_size=200)


def data_of(resources: list[tuple[dict[str, str], list[str]]]) -> Any:
    data = METRICS()
    for attributes, scopes in resources:
        resource = data.resource_metrics.add()
        for key, text in attributes.items():
            added = resource.resource.attributes.add(key=key)
            added.value.string_value = text
        for scope in scopes:
            resource.scope_metrics.add(schema_url=scope)
    return data


RESOURCES = st.lists(st.tuples(st.dictionaries(TEXTS, TEXTS, max_size=3), st.lists(TEXTS, max_size=3)), max_size=4)


@given(RESOURCES, st.dictionaries(TEXTS, TEXTS, max_size=4))
def test_every_resource_has_them_in_front_of_its_own(
    resources: list[tuple[dict[str, str], list[str]]], attributes: dict[str, str]
) -> None:
    said = METRICS.FromString(with_attributes(data_of(resources).SerializeToString(), attributes))
    assert len(said.resource_metrics) == len(resources)
    for got, (own, scopes) in zip(said.resource_metrics, resources, strict=True):
        assert [(one.key, one.value.string_value) for one in got.resource.attributes] == [
            *attributes.items(),
            *own.items(),
        ]
        assert [one.schema_url for one in got.scope_metrics] == scopes


def test_fields_that_are_not_known_stay() -> None:
    foreign = b"\x9a\x06\x02hi" + b"\x20\x96\x01" + b"\x29" + bytes(8) + b"\x35" + bytes(4)
    given_bytes = foreign + b"\x0a" + bytes((len(foreign),)) + foreign
    out = with_attributes(given_bytes, {})
    assert out == foreign + b"\x0a" + bytes((len(foreign) + 2,)) + b"\x0a\x00" + foreign


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        out = with_attributes(data, {"a": "b"})
    except MalformedMessage:
        return
    assert len(out) <= len(data) + 20 * RESOURCES_MAX


@pytest.mark.parametrize(
    "data",
    [
        b"\x0a",  # no length
        b"\x0a\x05ab",  # cut off
        b"\x0b\x0c",  # a group
        b"\x02\x00",  # field 0
        b"\xff" * 11,
        b"\x0a\x02\x0a\x05",  # the resource is cut off
        b"\x0a\x00" * (RESOURCES_MAX + 1),
        b"\x12\x00" * (FIELDS_MAX + 1),
        b"\x0a" + b"\xa2\x9c\x01" + b"\x12\x00" * (FIELDS_MAX + 1),
    ],
)
def test_what_is_no_metrics_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedMessage):
        with_attributes(data, {"a": "b"})


def test_what_is_added_has_a_limit() -> None:
    """A client names itself with 32,767 bytes each for its id, its software and the version of that."""
    data = b"\n\0" * 100
    assert len(with_attributes(data, {"a": "b" * 1_000}, bytes_max=200_000)) > 100_000
    with pytest.raises(MalformedMessage, match="more than 50000 bytes with the client's attributes"):
        with_attributes(data, {"a": "b" * 1_000}, bytes_max=50_000)
