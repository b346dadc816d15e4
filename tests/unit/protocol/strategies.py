"""Hypothesis strategies made from the formats themselves: any message an API version can carry.

Hypothesis draws one number for a message, and dice make the fields from it: a strategy for each field takes ten times as long, and
thousands of messages are drawn. A failed example is printed whole; it is made smaller in one way alone: the number 0 stands for the
least message, which Hypothesis tries first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from typing import Any, Final
from uuid import UUID

from hypothesis import strategies as st

from bmq.protocol import codec
from bmq.protocol.apis import ApiKey
from bmq.protocol.wire import Entity, Field

ARRAY_ELEMENTS_MAX: Final = 3
TEXT_CHARACTERS_MAX: Final = 12
BYTES_MAX: Final = 200
# First and last characters of ranges, so that each length in UTF-8 is as likely. Surrogates cannot be encoded.
_CHARACTERS: Final = ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0xE000, 0xFFFF), (0x1_0000, 0x10_FFFF))
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_KNOWN_TEXTS: Final = ("", "topic-1", "é" * 70)
_KNOWN_FLOATS: Final = (0.0, -0.0, 1.0, -1.5, 5e-324, 1.7976931348623157e308, float("inf"), float("-inf"))


def _integer(dice: Random, least: int, most: int) -> int:
    """Small ones and the bounds are as likely as all others."""
    match dice.randrange(4):
        case 0:
            return dice.choice((least, most))
        case 1:
            return max(least, min(dice.randint(-2, 2), most))
        case _:
            return dice.randint(least, most)


def drawn_text(dice: Random, characters_max: int) -> str:
    """Of any characters that UTF-8 has."""
    return "".join(chr(dice.randint(*dice.choice(_CHARACTERS))) for _ in range(dice.randint(0, characters_max)))


def _text(dice: Random) -> str:
    if not dice.randrange(4):
        return dice.choice(_KNOWN_TEXTS)
    return drawn_text(dice, TEXT_CHARACTERS_MAX)


def _bytes(dice: Random) -> bytes:
    return dice.randbytes(dice.choice((0, dice.randint(1, 8), dice.randint(0, BYTES_MAX))))


def _float(dice: Random) -> float:
    return dice.choice((*_KNOWN_FLOATS, dice.random(), dice.uniform(-1e300, 1e300)))


def _uuid(dice: Random) -> UUID | None:
    return dice.choice((None, UUID(int=dice.choice((1, dice.getrandbits(128), 2**128 - 1)))))


_DRAWN: Final[dict[str, Callable[[Random], Any]]] = {
    "uint16": lambda dice: _integer(dice, 0, 2**16 - 1),
    "bool": lambda dice: dice.random() < 0.5,
    "string": _text,
    "bytes": _bytes,
    "records": _bytes,
    "float64": _float,
    "uuid": _uuid,
}
_LEAST: Final[dict[str, Any]] = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "records": b"",
    "float64": 0.0,
    "uuid": None,
}
"""By type; 0 for all others."""


def _scalar(field: Field, dice: Random) -> Any:
    if field.entity is not None:
        return drawn_message(field.entity, dice)
    if field.name.endswith("error_code"):
        return dice.randint(-1, 133)  # so that kio, which knows only Kafka 4.3's codes, can follow
    if field.name.endswith("_ms"):
        return _integer(dice, 0, 2**31 - 1)  # kio turns these into timedeltas and datetimes, which have limits
    assert field.kafka_type is not None
    if bits := _BITS.get(field.kafka_type):
        return _integer(dice, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return _DRAWN[field.kafka_type](dice)


def _value(field: Field, dice: Random) -> Any:
    """Of one field of one version."""
    if field.tag is not None and field.entity is None and dice.random() < 0.5:
        return field.default
    if field.is_nullable and dice.random() < 0.3:
        return None
    if field.is_array:
        return tuple(_scalar(field, dice) for _ in range(dice.randint(0, ARRAY_ELEMENTS_MAX)))
    return _scalar(field, dice)


def drawn_message(entity: Entity, dice: Random) -> Any:
    return entity.message_class(**{field.name: _value(field, dice) for field in entity.fields})


def _least_value(field: Field) -> Any:
    if field.tag is not None and field.entity is None:
        return field.default
    if field.is_nullable:
        return None
    if field.is_array:
        return ()
    return least_message(field.entity) if field.entity is not None else _LEAST.get(field.kafka_type or "", 0)


def least_message(entity: Entity) -> Any:
    """Null where that is allowed, else empty or zero; a tagged field's default is not written at all."""
    return entity.message_class(**{field.name: _least_value(field) for field in entity.fields})


def messages(entity: Entity) -> st.SearchStrategy[Any]:
    """Messages with values in the fields that the version has, defaults in the others."""
    return st.integers(0, 2**64 - 1).map(
        lambda seed: drawn_message(entity, Random(seed)) if seed else least_message(entity)
    )


@cache
def api_messages(kind: str, api_key: ApiKey, version: int) -> st.SearchStrategy[Any]:
    """Bodies of an API's "request" or "response" in one version."""
    return messages(codec.message_format(kind, api_key).entity(version))
