"""Definitions for tests: one of each format, and strategies that make any."""

from __future__ import annotations

import base64
from typing import Any, Final

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.timestamp_pb2 import DESCRIPTOR as TIMESTAMP_FILE
from hypothesis import strategies as st

from bmq.table_definitions.column_types import SCALARS
from bmq.table_definitions.definition import TableDefinition

ORDER_SCHEMA: Final[dict[str, Any]] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": ["null", "int"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["null", "State"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "customer",
            "type": {
                "type": "record",
                "name": "Customer",
                "fields": [{"name": "name", "type": "string"}, {"name": "next", "type": ["null", "Customer"]}],
            },
        },
    ],
}


def descriptor_set(*, id_number: int = 1, id_type: int = FieldDescriptorProto.TYPE_INT64, extra: bool = False) -> str:
    """shop.Order {id, count, price, at, customer.name, tags}; Base64."""
    optional, repeated = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED

    def field(name: str, number: int, kind: Any, type_name: str = "", label: Any = optional) -> FieldDescriptorProto:
        return FieldDescriptorProto(name=name, number=number, type=kind, type_name=type_name or None, label=label)

    message, text = FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_STRING
    order = DescriptorProto(
        name="Order",
        field=[
            field("id", id_number, id_type),
            field("count", 2, FieldDescriptorProto.TYPE_SINT32),
            field("price", 3, FieldDescriptorProto.TYPE_DOUBLE),
            field("at", 4, message, ".google.protobuf.Timestamp"),
            field("customer", 5, message, ".shop.Customer"),
            field("tags", 6, text, label=repeated),
            *([field("note", 7, text)] if extra else []),
        ],
    )
    file = FileDescriptorProto(
        name="shop.proto",
        package="shop",
        syntax="proto3",
        dependency=["google/protobuf/timestamp.proto"],
        message_type=[order, DescriptorProto(name="Customer", field=[field("name", 1, text)])],
    )
    stamp = FileDescriptorProto()
    TIMESTAMP_FILE.CopyToProto(stamp)
    return base64.b64encode(FileDescriptorSet(file=[stamp, file]).SerializeToString()).decode()


def definition(**changed: Any) -> TableDefinition:
    """A table of JSON values; keys of the JSON form replace those here."""
    return TableDefinition.model_validate({**json_form(), **changed})


def json_form() -> dict[str, Any]:
    return {
        "name": "orders",
        "topic": "shop.orders",
        "format": "json",
        "fields": [
            {"name": "id", "type": "long", "required": True},
            {"name": "city", "type": "string", "path": "customer.address.city"},
            {"name": "price", "type": "decimal(10,2)"},
            {"name": "at", "type": "timestamp", "source": "timestamp"},
        ],
        "partitioning": [{"by": "day", "field": "at"}, {"by": "bucket", "field": "id", "buckets": 16}],
    }


def avro_form(**avro: Any) -> dict[str, Any]:
    return {
        "name": "orders",
        "topic": "orders",
        "format": "avro",
        "avro": avro or {"writer_schema": ORDER_SCHEMA},
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "count", "type": "int"},
            {"name": "price", "type": "decimal(10,2)"},
            {"name": "at", "type": "timestamp"},
            {"name": "day", "type": "date"},
            {"name": "state", "type": "string"},
            {"name": "before", "type": "string"},
            {"name": "customer", "type": "string", "path": "customer.name"},
            {"name": "next", "type": "string", "path": "customer.next.next.name"},
        ],
    }


def protobuf_form(descriptor: str | None = None) -> dict[str, Any]:
    return {
        "name": "orders",
        "topic": "orders",
        "format": "protobuf",
        "protobuf": {"message": "shop.Order", "descriptor_set": descriptor or descriptor_set()},
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "count", "type": "int"},
            {"name": "price", "type": "double"},
            {"name": "at", "type": "timestamp"},
            {"name": "customer", "type": "string", "path": ["customer", "name"]},
        ],
    }


# --- any

_names = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True)
_texts = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)  # type: ignore[arg-type]
_types = st.one_of(
    st.sampled_from(SCALARS),
    st.tuples(st.integers(1, 38), st.integers(0, 38))
    .filter(lambda digits: digits[1] <= digits[0])
    .map(lambda digits: f"decimal({digits[0]},{digits[1]})"),
)


@st.composite
def _fields(draw: st.DrawFn, name: str, is_raw: bool) -> dict[str, Any]:
    field: dict[str, Any] = {"name": name}
    source = draw(st.sampled_from(("value", "key", "header", "topic", "partition", "offset", "timestamp")))
    field["source"] = source
    if source in ("key", "header") or (source == "value" and is_raw):
        field["type"] = draw(st.sampled_from(("string", "binary")))
    elif source == "value":
        field["type"] = draw(_types)
        field["path"] = draw(st.lists(_texts, max_size=4))
        if field["type"] == "timestamp":
            field["unit"] = draw(st.sampled_from((None, "s", "ms", "us")))
    else:
        field["type"] = {"topic": "string", "partition": "int", "offset": "long", "timestamp": "timestamp"}[source]
    if source == "header":
        field["path"] = draw(st.lists(_texts, max_size=1))
    field["required"] = draw(st.booleans())
    field["description"] = draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=20))  # type: ignore[arg-type]
    return field


@st.composite
def definitions(draw: st.DrawFn) -> TableDefinition:
    """Any table of JSON or raw values."""
    is_raw = draw(st.booleans())
    names = draw(st.lists(_names, min_size=1, max_size=6, unique=True))
    fields = [draw(_fields(name, is_raw)) for name in names]
    partitioning = []
    for field in fields:
        by = draw(st.sampled_from((None, "identity", "bucket", "day")))
        if by == "identity":
            partitioning.append({"by": by, "field": field["name"]})
        elif by == "bucket" and field["type"] not in ("boolean", "float", "double"):
            if f"{field['name']}_bucket" not in names:
                partitioning.append({"by": by, "field": field["name"], "buckets": draw(st.integers(1, 64))})
        elif by == "day" and field["type"] in ("timestamp", "date") and f"{field['name']}_day" not in names:
            partitioning.append({"by": by, "field": field["name"]})
    misfits = draw(st.sampled_from(("dead_letter", "stop")))
    name = draw(_names)
    return TableDefinition.model_validate(
        {
            "name": name,
            "topic": draw(st.from_regex(r"[a-zA-Z0-9._-]{1,30}", fullmatch=True)),
            "format": "raw" if is_raw else "json",
            "fields": fields,
            "partitioning": partitioning,
            "misfits": misfits,
            "dead_letter": draw(st.sampled_from((None, f"{name}_bad"))) if misfits == "dead_letter" else None,
            "starting_offsets": draw(st.sampled_from(("earliest", "latest"))),
            "description": draw(st.text(st.characters(exclude_categories=("Cs",)), max_size=40)),  # type: ignore[arg-type]
        }
    )
