"""Decodes a column of Protobuf values into the fields of a table, by the schema in its definition.

For Spark's `arrow_udf`: an Arrow array of bytes in, one of structs out. Protobuf's own C library parses each value;
there is no columnar parser. Source: Protobuf's field presence and its defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from bmq.descriptor_sets.messages import load_message
from bmq.spark.tables.markers import MARKER
from bmq.table_definitions.protobuf_framing import NotFramed, message_bytes

Path: TypeAlias = tuple[str, ...]
Indexes: TypeAlias = tuple[int, tuple[int, ...]]
"""A schema's id, and the message's indexes in it."""
REASON: Final = "_bmq_reason"
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_KINDS: Final[dict[int, tuple[str, pa.DataType]]] = {
    FieldDescriptor.CPPTYPE_BOOL: ("boolean", pa.bool_()),
    FieldDescriptor.CPPTYPE_INT32: ("int", pa.int32()),
    FieldDescriptor.CPPTYPE_UINT32: ("bigint", pa.int64()),
    FieldDescriptor.CPPTYPE_INT64: ("bigint", pa.int64()),
    FieldDescriptor.CPPTYPE_UINT64: ("decimal(20,0)", pa.decimal128(20, 0)),
    FieldDescriptor.CPPTYPE_FLOAT: ("float", pa.float32()),
    FieldDescriptor.CPPTYPE_DOUBLE: ("double", pa.float64()),
    FieldDescriptor.CPPTYPE_ENUM: ("string", pa.string()),
    FieldDescriptor.CPPTYPE_STRING: ("string", pa.string()),
}
# Years 1 to 9999: the range of a Timestamp.
_SECONDS_MIN: Final = -62_135_596_800
_SECONDS_MAX: Final = 253_402_300_799
_NANOS_MAX: Final = 999_999_999


@dataclass(frozen=True, slots=True)
class _Column:
    spark_type: str
    arrow_type: pa.DataType
    read: Callable[[Any], Any]


class ProtobufColumns:
    """The values at some paths of one message. The definition was already checked against the schema.

    `indexes_by_id`: of values behind the id of a registry's schema; empty: bare ones.
    """

    def __init__(
        self, descriptor_set: bytes, message: str, paths: Sequence[Path], indexes_by_id: Iterable[Indexes] = ()
    ) -> None:
        descriptor = load_message(descriptor_set, message)
        self._parse = GetMessageClass(descriptor).FromString
        self._columns = [_column(descriptor, path) for path in paths]
        self._indexes_by_id = dict(indexes_by_id)
        self._unreadable = f"the value is no message {message}"

    @property
    def spark_type(self) -> str:
        """Type of the structs: the marker, null for bytes that are no such message, then why, and a field for each path."""
        kinds = (f"{column_name(number)}:{column.spark_type}" for number, column in enumerate(self._columns))
        return f"struct<{MARKER}:boolean,{REASON}:string,{','.join(kinds)}>"

    def decode(self, values: pa.Array) -> pa.Array:
        """A struct for each value, with nulls for unreadable ones."""
        rows = [self._row(value) for value in values.to_pylist()]
        names = [MARKER, REASON, *(column_name(number) for number in range(len(self._columns)))]
        types = [pa.bool_(), pa.string(), *(column.arrow_type for column in self._columns)]
        columns = zip(*rows, strict=True) if rows else ((),) * len(types)
        return pa.StructArray.from_arrays(
            [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], names
        )

    def _row(self, value: bytes | None) -> tuple[Any, ...]:
        why = self._unreadable
        if value is not None:
            try:
                message = self._parse(message_bytes(value, self._indexes_by_id) if self._indexes_by_id else value)
                return (True, None, *(column.read(message) for column in self._columns))
            except NotFramed as error:
                why = str(error)
            except (DecodeError, _Impossible):
                pass
        return (None, why, *(None,) * len(self._columns))


def column_name(number: int) -> str:
    """Name of the column for the path at this index."""
    return f"c{number}"


@lru_cache(maxsize=16)
def protobuf_columns(
    descriptor_set: bytes, message: str, paths: tuple[Path, ...], indexes_by_id: tuple[Indexes, ...] = ()
) -> ProtobufColumns:
    """Cached, so created once in each worker."""
    return ProtobufColumns(descriptor_set, message, paths, indexes_by_id)


class _Impossible(Exception):
    """A Timestamp that is out of range, or a text that is not UTF-8."""


def _column(message: Descriptor, path: Path) -> _Column:
    *above, last = path
    for step in above:
        below = message.fields_by_name[step].message_type
        assert below is not None
        message = below
    field = message.fields_by_name[last]
    if field.message_type is not None:
        assert field.message_type.full_name == _TIMESTAMP
        return _Column("timestamp", pa.timestamp("us", "UTC"), _within(above, last, True, _microseconds))
    kind = _KINDS[field.cpp_type]
    convert: Callable[[Any], Any] = _same
    if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64:
        convert = Decimal
    elif field.enum_type is not None:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        # A newer schema may have more values.
        convert = lambda number: names.get(number, str(number))  # noqa: E731
    elif field.type == FieldDescriptor.TYPE_BYTES:
        kind = ("binary", pa.binary())
    elif field.type == FieldDescriptor.TYPE_STRING:
        convert = _text
    return _Column(*kind, _within(above, last, field.has_presence, convert))


def _within(above: Sequence[str], last: str, has_presence: bool, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(message: Any) -> Any:
        for step in above:
            if not message.HasField(step):
                return None
            message = getattr(message, step)
        if has_presence and not message.HasField(last):
            return None
        return convert(getattr(message, last))

    return read


def _same(value: Any) -> Any:
    return value


def _text(value: str | bytes) -> str:
    """A proto2 message may have any bytes in a string; the library returns them unchanged."""
    if isinstance(value, bytes):
        raise _Impossible
    return value


def _microseconds(timestamp: Any) -> int:
    if not _SECONDS_MIN <= timestamp.seconds <= _SECONDS_MAX or not 0 <= timestamp.nanos <= _NANOS_MAX:
        raise _Impossible
    return int(timestamp.seconds) * 1_000_000 + int(timestamp.nanos) // 1_000
