"""Resolves paths in a Protobuf message and checks which columns they fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from bmq.dataclass import dataclass
from bmq.descriptor_sets.messages import InvalidDescriptorSet, load_message
from bmq.table_definitions.avro_schema import SchemaRefused

_INTEGERS: Final = {
    **dict.fromkeys((FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32), "int32"),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_FIXED32), "uint32"),
    **dict.fromkeys((FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64), "int64"),
    **dict.fromkeys((FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64), "uint64"),
}
_KINDS: Final[Mapping[int, str]] = {
    **_INTEGERS,
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_FLOAT: "float",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_ENUM: "enum",
}
TIMESTAMP: Final = "google.protobuf.Timestamp"
_COLUMNS: Final[Mapping[str, frozenset[str]]] = {
    "bool": frozenset({"boolean"}),
    "int32": frozenset({"int", "long"}),
    "uint32": frozenset({"long"}),
    "int64": frozenset({"long"}),
    "uint64": frozenset({"decimal(20,0)"}),
    "float": frozenset({"float", "double"}),
    "double": frozenset({"double"}),
    "string": frozenset({"string"}),
    "bytes": frozenset({"binary"}),
    "enum": frozenset({"string"}),
    TIMESTAMP: frozenset({"timestamp"}),
}
_OWN_COLUMNS: Final[Mapping[str, str]] = {"int32": "int", "float": "float"}
"""Of kinds that fit more than one column."""


def own_column(kind: str) -> str:
    """The smallest column type that holds each value of the kind."""
    return _OWN_COLUMNS.get(kind) or next(iter(_COLUMNS[kind]))


@dataclass(frozen=True, slots=True)
class ProtobufPath:
    """A value's place in the bytes (`numbers`: a field number for each step) and its encoding."""

    numbers: tuple[int, ...]
    wire_type: int
    kind: str


class ProtobufSchema:
    """One message of a descriptor set. Raises SchemaRefused when the set is invalid or lacks the message."""

    def __init__(self, descriptor_set: bytes, message: str) -> None:
        try:
            self.message: Descriptor = load_message(descriptor_set, message)
        except InvalidDescriptorSet as error:
            raise SchemaRefused(str(error)) from None

    def path(self, steps: Sequence[str]) -> ProtobufPath:
        """Raises SchemaRefused when the path does not exist, or leads to something that is not a single value."""
        message: Descriptor | None = self.message
        numbers: list[int] = []
        field: FieldDescriptor | None = None
        for number, step in enumerate(steps):
            here = ".".join(steps[:number])
            if message is None:
                raise SchemaRefused(f"{here} is no message there, so it has no {step}")
            field = message.fields_by_name.get(step)
            if field is None:
                raise SchemaRefused(f"it has no {'.'.join(steps[: number + 1])}")
            if field.is_repeated:
                raise SchemaRefused(f"{'.'.join(steps[: number + 1])} is repeated there, and a column takes one value")
            numbers.append(field.number)
            message = field.message_type
        assert field is not None
        if message is None:
            return ProtobufPath(tuple(numbers), field.type, _KINDS[field.type])
        if message.full_name != TIMESTAMP:
            raise SchemaRefused(f"{'.'.join(steps)} is a message there; name one of its fields")
        return ProtobufPath(tuple(numbers), field.type, TIMESTAMP)

    def conflict(self, newer: ProtobufSchema, steps: Sequence[str]) -> str | None:
        """Why a value that this schema wrote is read wrongly at the newer one's path; None: it is read right, or absent."""
        wanted = newer.path(steps)
        try:
            if self.path(steps) != wanted:
                return f"{'.'.join(steps)} has another number or type there"
        except SchemaRefused:
            pass  # it has another name here, or is absent
        message: Descriptor | None = self.message
        for place, number in enumerate(wanted.numbers, 1):
            field = None if message is None else message.fields_by_number.get(number)
            if field is None:
                return None
            is_last = place == len(wanted.numbers)
            is_alike = field.type == wanted.wire_type if is_last else field.message_type is not None
            if field.is_repeated or not is_alike:
                return f"number {number} of {'.'.join(steps)} is another field there"
            message = field.message_type
        return None

    def fits(self, steps: Sequence[str], column_type: str, unit: str | None) -> None:
        """Raises SchemaRefused when a column of this type does not take the value at the path."""
        kind = self.path(steps).kind
        if column_type == "timestamp" and unit is not None:
            is_fit = kind in _INTEGERS.values()
        else:
            is_fit = column_type in _COLUMNS[kind]
        if not is_fit:
            raise SchemaRefused(f"{'.'.join(steps)} is {kind} there, which does not fit {column_type}")
