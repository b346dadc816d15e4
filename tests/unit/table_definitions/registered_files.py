"""Protobuf schemas as a registry gives them: Base64 of a FileDescriptorProto."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from bmq.table_definitions.from_registry import RegisteredVersion

INT32, INT64, TEXT, MESSAGE = (
    FieldDescriptorProto.TYPE_INT32,
    FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_STRING,
    FieldDescriptorProto.TYPE_MESSAGE,
)


def field(
    name: str, number: int, kind: Any = TEXT, type_name: str | None = None, *, is_repeated: bool = False
) -> FieldDescriptorProto:
    label = FieldDescriptorProto.LABEL_REPEATED if is_repeated else FieldDescriptorProto.LABEL_OPTIONAL
    return FieldDescriptorProto(name=name, number=number, type=kind, type_name=type_name, label=label)


def file(
    *messages: DescriptorProto, package: str = "shop", imports: tuple[str, ...] = (), name: str = "default"
) -> FileDescriptorProto:
    return FileDescriptorProto(name=name, package=package, syntax="proto3", dependency=imports, message_type=messages)


def text(given: FileDescriptorProto) -> str:
    return base64.b64encode(given.SerializeToString()).decode()


ADDRESS = file(DescriptorProto(name="Address", field=[field("city", 1), field("zip", 2, INT32)]))
ORDER = file(
    DescriptorProto(name="Unused"),
    DescriptorProto(
        name="Order",
        field=[
            field("id", 1, INT32),
            field("at", 2, MESSAGE, ".google.protobuf.Timestamp"),
            field("address", 3, MESSAGE, ".shop.Address"),
            field("tags", 4, is_repeated=True),
            field("parent", 5, MESSAGE, ".shop.Order"),
            field("note", 6, MESSAGE, ".google.protobuf.StringValue"),
        ],
        nested_type=[DescriptorProto(name="Line", field=[field("sku", 1)])],
    ),
    imports=(
        "google/protobuf/timestamp.proto",
        "common/address.proto",
        "google/protobuf/wrappers.proto",
        "confluent/meta.proto",
    ),
)
IMPORTS = {"common/address.proto": text(ADDRESS)}


def version(number: int, given: FileDescriptorProto = ORDER, imports: dict[str, str] = IMPORTS) -> RegisteredVersion:
    return RegisteredVersion(number, 100 + number, "PROTOBUF", text(given), bool(imports), imports)


def with_fields(*fields: FieldDescriptorProto) -> FileDescriptorProto:
    """A file of one message Order."""
    return file(DescriptorProto(name="Order", field=fields))
