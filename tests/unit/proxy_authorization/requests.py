"""Requests with one element in each array and the same word in each string, made from the formats."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode, encode, message_format
from bmq.protocol.formats import Format, FormatField

WORD: Final = "secret"
TOPIC_ID: Final = UUID(int=0x5EC4E7)
_NUMBERS: Final = {"error_code": 0, "key_type": 0}
"""Fields whose value says what the others mean; all other numbers are 2: a topic, where it is the type of a resource."""


def full_request(api_key: ApiKey, version: int) -> Any:
    """Encoded and decoded, so that it has what a client of this version can say."""
    made = _filled(message_format("request", api_key), version)
    return decode("request", api_key, version, encode("request", api_key, version, made))


def _filled(form: Format, version: int) -> Any:
    values = {field.name: _value(field, version) for field in form.fields if field.since <= version <= field.until}
    return form.message_class(**values)


def _value(field: FormatField, version: int) -> Any:
    if field.entity is not None:
        value = _filled(field.entity, version)
    elif field.kafka_type == "string":
        value = WORD
    elif field.kafka_type == "uuid":
        value = TOPIC_ID
    elif field.kafka_type in ("bytes", "records"):
        value = b""
    elif field.kafka_type == "bool":
        value = False
    elif field.kafka_type in ("float64", "double"):
        value = 1.0
    else:
        value = _NUMBERS.get(field.name, 2)
    return [value] if field.is_array else value


def values_of(message: Any) -> Iterator[tuple[str, Any]]:
    """Names of fields and their values, however deep; of an array each element."""
    for field in dataclasses.fields(message):
        yield from _values(field.name, getattr(message, field.name))


def _values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        yield from values_of(value)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _values(name, one)
    else:
        yield name, value
