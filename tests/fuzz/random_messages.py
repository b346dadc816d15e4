"""Messages drawn from their formats: any that a version can carry, and neighbours of one."""

from __future__ import annotations

from random import Random
from struct import unpack
from typing import Any, Final
from uuid import UUID

from bmq.protocol.wire import Entity, Field

ELEMENTS_MAX: Final = 3
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
_TEXTS: Final = ("", "t", "orders", "é" * 70, "a" * 127, "a" * 128, ".", "__consumer_offsets", "\n", "*", "\0", "g=,")


def random_message(entity: Entity, dice: Random) -> Any:
    """Values in the fields that the version has, defaults in the others."""
    return entity.message_class(**{field.name: random_value(field, dice) for field in entity.fields})


def changed_message(entity: Entity, message: Any, dice: Random) -> Any:
    """The message with one field, at any depth, drawn anew."""
    if not entity.fields:
        return message
    values = {field.name: getattr(message, field.name) for field in entity.fields}
    field = dice.choice(entity.fields)
    values[field.name] = _changed_value(field, values[field.name], dice)
    return entity.message_class(**values)


def random_value(field: Field, dice: Random) -> Any:
    if field.is_nullable and not dice.randrange(6):
        return None
    if field.tag is not None and field.entity is None and dice.randrange(2):
        return field.default
    if not field.is_array:
        return _one(field, dice)
    return tuple(_one(field, dice) for _ in range(dice.randrange(ELEMENTS_MAX + 1)))


def _changed_value(field: Field, value: Any, dice: Random) -> Any:
    if field.is_array and value and field.kafka_type not in ("bytes", "records", "string"):
        elements = list(value)
        place = dice.randrange(len(elements))
        match dice.randrange(5):
            case 0:
                return (*elements, elements[place])
            case 1:
                del elements[place]
            case _ if field.entity is not None:
                elements[place] = changed_message(field.entity, elements[place], dice)
            case _:
                elements[place] = _one(field, dice)
        return tuple(elements)
    if field.entity is not None and not field.is_array and value is not None and dice.randrange(4):
        return changed_message(field.entity, value, dice)
    return random_value(field, dice)


def _one(field: Field, dice: Random) -> Any:
    if field.entity is not None:
        return random_message(field.entity, dice)
    match field.kafka_type:
        case "bool":
            return bool(dice.randrange(2))
        case "string":
            return dice.choice(_TEXTS)
        case "bytes" | "records":
            return dice.randbytes(dice.choice((0, 1, 16, 61, 70, 200)))
        case "uuid":
            return dice.choice((None, UUID(int=10), UUID(int=dice.getrandbits(128))))
        case "float64":
            number = unpack(">d", dice.randbytes(8))[0]
            return number if number == number else 0.5  # Python may change the bits of a NaN
    return _number(str(field.kafka_type), dice)


def _number(kafka_type: str, dice: Random) -> int:
    bits = _BITS[kafka_type]
    low, high = (0, 2**bits - 1) if kafka_type.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    few = dice.choice((low, -1, 0, 1, 2, 3, 100, high - 1, high))
    drawn = few if dice.randrange(4) else dice.randint(low, high)
    return min(max(drawn, low), high)
