"""Fields of a kio schema class as bmq uses them: durations in whole milliseconds, times as int, errors as int."""

from __future__ import annotations

import dataclasses
import datetime
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin
from uuid import UUID

# kio type -> (type we read and write it as, Python type, suffix of the field's name, default)
_AS_WE_USE_IT: dict[str, tuple[str, str, str, Any]] = {
    "timedelta_i32": ("int32", "int", "_ms", 0),
    "timedelta_i64": ("int64", "int", "_ms", 0),
    "datetime_i64": ("int64", "int", "_ms", -1),
    "error_code": ("int16", "int", "", 0),
    "string": ("string", "str", "", ""),
    "bytes": ("bytes", "bytes", "", b""),
    "records": ("records", "bytes", "", b""),
    "uuid": ("uuid", "UUID", "", None),
    "bool": ("bool", "bool", "", False),
    "float64": ("float64", "float", "", 0.0),
}


@dataclass(frozen=True, slots=True)
class WireField:
    """One field of one message version: what kio needs to read and write it, and the default Kafka gives it."""

    name: str
    kafka_type: str | None  # None for nested entities
    python_type: str
    entity: type | None
    is_array: bool
    nullable: bool
    tag: int | None
    default: Any
    has_default: bool = True


@cache
def wire_fields(entity: type) -> tuple[WireField, ...]:
    """The fields of a kio class in wire order."""
    return tuple(_wire_field(field) for field in dataclasses.fields(entity))


def _wire_field(field: dataclasses.Field[Any]) -> WireField:
    inner: Any = field.type
    nullable = False
    if get_origin(inner) in (UnionType, Union):
        nullable = True
        inner = next(part for part in get_args(inner) if part is not NoneType)
    is_array = get_origin(inner) is tuple
    if is_array:
        inner = get_args(inner)[0]
        if get_origin(inner) in (UnionType, Union):
            inner = next(part for part in get_args(inner) if part is not NoneType)
    tag = field.metadata.get("tag")
    if dataclasses.is_dataclass(inner):
        default: Any = () if is_array else (None if nullable else inner)
        if field.default is None:
            default = None
        if isinstance(default, type):
            default = _Nested()
        return WireField(field.name, None, "", inner, is_array, nullable, tag, default)  # type: ignore[arg-type]
    kafka_type = field.metadata["kafka_type"]
    wire_type, python_type, suffix, default = _AS_WE_USE_IT.get(kafka_type, (kafka_type, "int", "", 0))
    if field.default is not dataclasses.MISSING:
        default = _plain(field.default)
    elif is_array:
        default = ()
    elif nullable and kafka_type not in ("datetime_i64",):
        default = None
    if kafka_type == "datetime_i64":
        nullable, default = False, -1 if default is None else default
    return WireField(field.name + suffix, wire_type, python_type, None, is_array, nullable, tag, default)


@dataclass(frozen=True, slots=True)
class _Nested:
    """Stands for "a nested entity with all its defaults" where a default is wanted."""


def _plain(value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return round(value.total_seconds() * 1000)
    if isinstance(value, bool) or value is None or isinstance(value, UUID):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (bytes, tuple, float)):
        return value
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    return _Nested() if dataclasses.is_dataclass(value) else value
