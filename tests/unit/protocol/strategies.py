"""Hypothesis strategies made from the formats themselves: any message an API version can carry."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from bmq.protocol import codec
from bmq.protocol.apis import ApiKey
from bmq.protocol.wire import Entity, Field

_TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(("topic-1", "é" * 70))
_INTEGERS = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint16": st.integers(0, 2**16 - 1),
}
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    **_INTEGERS,
    "bool": st.booleans(),
    "string": _TEXT,
    "bytes": st.binary(max_size=200),
    "records": st.binary(max_size=200),
    "float64": st.floats(allow_nan=False),
    "uuid": st.none() | st.uuids(),
}


def values(field: Field) -> st.SearchStrategy[Any]:
    """Values of one field of one version."""
    if field.entity is not None:
        one: st.SearchStrategy[Any] = messages(field.entity)
    elif field.name.endswith("error_code"):
        one = st.integers(-1, 133)  # so that kio, which knows only Kafka 4.3's codes, can follow
    elif field.name.endswith("_ms"):
        one = st.integers(0, 2**31 - 1)  # kio turns these into timedeltas and datetimes, which have limits
    else:
        assert field.kafka_type is not None
        one = _VALUES[field.kafka_type]
    if field.is_array:
        one = st.lists(one, max_size=3).map(tuple)
    if field.is_nullable:
        one = st.none() | one
    if field.tag is not None and field.entity is None:
        one = st.just(field.default) | one
    return one


def messages(entity: Entity) -> st.SearchStrategy[Any]:
    """Messages with values in the fields that the version has, defaults in the others."""
    fields = st.fixed_dictionaries({field.name: values(field) for field in entity.fields})
    return fields.map(lambda given: entity.message_class(**given))


@cache
def api_messages(kind: str, api_key: ApiKey, version: int) -> st.SearchStrategy[Any]:
    """Bodies of an API's "request" or "response" in one version."""
    return messages(codec.message_format(kind, api_key).entity(version))
