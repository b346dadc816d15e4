"""Protobuf messages drawn from their descriptors, and neighbours of one."""

from __future__ import annotations

from random import Random
from typing import Any, Final, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

M = TypeVar("M", bound=Message)
_TEXTS: Final = ("", "dn0", "127.0.0.1", "org.apache.hadoop.ipc.StandbyException", "é" * 60, "a" * 130)
_DEPTH_MAX: Final = 4
_RANGES: Final = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}


def random_protobuf(message_class: type[M], dice: Random, depth: int = 0) -> M:
    """All required fields, and some of the others."""
    message = message_class()
    field: Any
    for field in message.DESCRIPTOR.fields:
        if field.is_required or dice.randrange(2):
            set_field(message, field, dice, depth)
    return message


def changed_protobuf(message: M, dice: Random) -> M:
    """The message with one field, at any depth, drawn anew or left out."""
    fields: list[Any] = list(message.DESCRIPTOR.fields)
    if not fields:
        return message
    field = dice.choice(fields)
    if field.message_type is not None and not field.is_repeated and message.HasField(field.name) and dice.randrange(3):
        changed_protobuf(getattr(message, field.name), dice)
        return message
    message.ClearField(field.name)
    if dice.randrange(4):
        set_field(message, field, dice, 1)
    return message


def set_field(message: Message, field: FieldDescriptor, dice: Random, depth: int) -> None:
    if field.message_type is not None:
        if depth >= _DEPTH_MAX and not field.is_required:
            return
        drawn = type(message)()  # a scratch of the same kind has the class of the field's messages
        for _ in range(dice.randrange(3) if field.is_repeated else 1):
            place = getattr(drawn, field.name).add() if field.is_repeated else getattr(drawn, field.name)
            place.SetInParent()
            place.MergeFrom(random_protobuf(type(place), dice, depth + 1))
        message.MergeFrom(drawn)
    elif field.is_repeated:
        getattr(message, field.name).extend(_value(field, dice) for _ in range(dice.randrange(4)))
    else:
        setattr(message, field.name, _value(field, dice))


def _value(field: FieldDescriptor, dice: Random) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                return dice.randbytes(dice.choice((0, 1, 16)))
            return dice.choice(_TEXTS)
        case FieldDescriptor.CPPTYPE_BOOL:
            return bool(dice.randrange(2))
        case FieldDescriptor.CPPTYPE_ENUM:
            assert field.enum_type is not None
            return dice.choice([value.number for value in field.enum_type.values])
    low, high = _RANGES[field.cpp_type]
    return min(max(dice.choice((low, -1, 0, 1, 512, 9866, high)), low), high)
