"""Records of the tail into rows, by the definition: what the job on Spark does for files (bmq/spark/tables/decoding.py).

A record fits when its value can be read, each present field has its type, and each required field is present; others have no
row, and are counted. Libraries read Avro and Protobuf as they do for the job. tests/e2e/test_spark_index.py compares both.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa

from bmq.index.json_values import DoesNotFit, at_path, from_json, json_object, moment_of
from bmq.index.topic_reader import LogRecord
from bmq.index.values import Value, arrow_type, from_micros
from bmq.spark.tables.columns import OFFSET_COLUMN, PARTITION_COLUMN
from bmq.spark.tables.protobuf_values import protobuf_columns
from bmq.table_definitions.avro_schema import AvroSchema
from bmq.table_definitions.column_types import precision_and_scale
from bmq.table_definitions.definition import Format, Source, TableDefinition, TableField
from bmq.table_definitions.index_layout import TIMESTAMP_COLUMN

_MAGIC: Final = struct.Struct(">bI")
_BARE: Final = -1
_CONTEXT: Final = Context(prec=100)
"""Python's own context has 28 digits."""
_READ_LOGICAL_TYPES: Final = ("decimal", "date", "timestamp-", "local-timestamp-")
_MICROSECOND: Final = timedelta(microseconds=1)
_ReadValues = Callable[[bytes], Sequence[Any]]
"""A record's value into the contents of the definition's fields from the value. Raises DoesNotFit."""


class TailRows:
    """Rows of the records that fit. `misfits`: how many did not."""

    def __init__(self, definition: TableDefinition) -> None:
        self._topic = definition.topic
        self._fields = definition.fields
        self._from_value = [each for each in definition.fields if each.source is Source.VALUE]
        self._read = _reader(definition, self._from_value)
        self._takes_null = definition.format is Format.RAW or not self._from_value
        self._columns: list[list[Value | None]] = [[] for _ in range(len(self._fields) + 3)]
        self.misfits = 0

    def __len__(self) -> int:
        return len(self._columns[0])

    def take(self, record: LogRecord) -> None:
        try:
            values = self._row(record)
        except (DoesNotFit, ValueError, TypeError, ArithmeticError, OSError):
            # A value that nobody thought of is one record without a row, not the end of every query.
            self.misfits += 1
            return
        own = (record.partition, record.offset, _moment(record.timestamp_ms))
        for column, value in zip(self._columns, (*own, *values), strict=True):
            column.append(value)

    def table(self) -> pa.Table:
        """Partition, offset and timestamp, then the definition's columns."""
        names = [PARTITION_COLUMN, OFFSET_COLUMN, TIMESTAMP_COLUMN, *(each.name for each in self._fields)]
        types = ["int", "long", "timestamp", *(each.type for each in self._fields)]
        arrays = [pa.array(column, arrow_type(kind)) for column, kind in zip(self._columns, types, strict=True)]
        return pa.Table.from_arrays(arrays, names)

    def _row(self, record: LogRecord) -> list[Value | None]:
        if record.value is None and not self._takes_null:
            raise DoesNotFit("the value is null")
        found = iter(self._read(record.value) if record.value is not None else [None] * len(self._from_value))
        row = []
        for field in self._fields:
            value = next(found) if field.source is Source.VALUE else self._of_record(field, record)
            if field.type == "string":
                value = _text(field, value)
            if field.required and value is None:
                raise DoesNotFit(f"field {field.name} is missing")
            row.append(value)
        return row

    def _of_record(self, field: TableField, record: LogRecord) -> Any:
        match field.source:
            case Source.KEY:
                return record.key
            case Source.HEADER:
                # The last header counts, as for clients that look one up by name.
                return next((value for name, value in reversed(record.headers) if name == field.steps[0]), None)
            case Source.TOPIC:
                return self._topic
            case Source.PARTITION:
                return record.partition
            case Source.OFFSET:
                return record.offset
            case _:
                return _moment(record.timestamp_ms)


def _reader(definition: TableDefinition, fields: Sequence[TableField]) -> _ReadValues:
    match definition.format:
        case Format.RAW:
            return lambda value: [value] * len(fields)
        case Format.JSON:
            return partial(_json, fields, definition.has_framed_json)
        case Format.AVRO:
            return _avro_reader(definition, fields)
        case Format.PROTOBUF:
            return _protobuf_reader(definition, fields)


def _json(fields: Sequence[TableField], is_framed: bool, value: bytes) -> list[Value | None]:
    if is_framed:
        if len(value) < _MAGIC.size or value[0] != 0:
            raise DoesNotFit("the value has no schema id before its JSON")
        value = value[_MAGIC.size :]
    root = json_object(value)
    return [from_json(field, at_path(root, field.steps)) for field in fields]


def _avro_reader(definition: TableDefinition, fields: Sequence[TableField]) -> _ReadValues:
    # Imported late: only indexes of this format need it.
    from fastavro import parse_schema, schemaless_reader

    assert definition.avro is not None
    by_id = definition.avro.by_id
    schemas = {
        number: (parse_schema(_without_unread_types(schema)), _logical_types(schema, fields))
        for number, schema in (by_id or {_BARE: definition.avro.writer_schema}).items()
    }

    def read(value: bytes) -> list[Value | None]:
        schema_id, body = _BARE, value
        if by_id:
            if len(value) < _MAGIC.size or value[0] != 0:
                raise DoesNotFit("the value has no schema id before its Avro record")
            schema_id = _MAGIC.unpack_from(value)[1]
            if schema_id not in schemas:
                raise DoesNotFit(f"the table has no schema with id {schema_id}")
            body = value[_MAGIC.size :]
        schema, logical_types = schemas[schema_id]
        try:
            root = schemaless_reader(io.BytesIO(body), schema, None)
        except Exception:  # noqa: BLE001 the library raises whatever the bytes lead it to
            raise DoesNotFit("the value is no Avro record of the table's schema") from None
        return [
            _from_avro(field, _within(root, field.steps), kind)
            for field, kind in zip(fields, logical_types, strict=True)
        ]

    return read


def _without_unread_types(schema: Any) -> Any:
    """A copy without logical types that a column has no type for (uuid, time-millis): the library would convert their values."""
    if isinstance(schema, list):
        return [_without_unread_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _without_unread_types(each)
        for name, each in schema.items()
        if name != "logicalType" or (isinstance(each, str) and each.startswith(_READ_LOGICAL_TYPES))
    }


def _logical_types(schema: Any, fields: Sequence[TableField]) -> list[str | None]:
    known = AvroSchema(schema)
    return [known.logical_type(field.steps) if known.has(field.steps) else None for field in fields]


def _protobuf_reader(definition: TableDefinition, fields: Sequence[TableField]) -> _ReadValues:
    assert definition.protobuf is not None
    message = definition.protobuf.message
    columns = protobuf_columns(
        definition.protobuf.descriptor_bytes,
        message,
        tuple(field.steps for field in fields),
        tuple(definition.protobuf.indexes_by_id.items()),
    )

    def read(value: bytes) -> list[Value | None]:
        present, why, *found = columns.decode(pa.array([value], pa.binary())).flatten()
        if present[0].as_py() is None:
            raise DoesNotFit(why[0].as_py())
        return [_typed(field, each[0].as_py()) for field, each in zip(fields, found, strict=True)]

    return read


def _within(found: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if not isinstance(found, dict):
            return None
        found = found.get(step)
    return found


def _from_avro(field: TableField, found: Any, logical_type: str | None) -> Value | None:
    if isinstance(found, datetime):
        micros = (found - datetime(1970, 1, 1, tzinfo=found.tzinfo)) // _MICROSECOND
        if field.type == "long" or field.unit is not None:  # the stored number
            found = micros // 1_000 if logical_type is not None and logical_type.endswith("millis") else micros
        else:
            found = from_micros(micros)
    return _typed(field, found)


def _typed(field: TableField, found: Any) -> Value | None:
    """A library's value in its column's type. Raises DoesNotFit."""
    if found is None:
        return None
    if field.unit is not None:
        moment = moment_of(int(found), field.unit)
        if moment is None:
            raise DoesNotFit(f"field {field.name}: {found} is no timestamp")
        return moment
    digits = precision_and_scale(field.type)
    if digits is not None:
        placed = Decimal(found).quantize(Decimal(1).scaleb(-digits[1]), context=_CONTEXT)
        if placed.copy_abs() >= Decimal(10) ** (digits[0] - digits[1]):
            raise DoesNotFit(f"field {field.name}: {found} is no {field.type}")
        return placed
    if field.type in ("float", "double"):
        return float(found)
    value: Value = found
    return value


def _text(field: TableField, value: Any) -> Any:
    """Text as UTF-8 can have it: a lone surrogate becomes a question mark, as in Java. Raises DoesNotFit."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode()
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise DoesNotFit(f"field {field.name} is no UTF-8") from None


def _moment(timestamp_ms: int | None) -> datetime | None:
    return None if timestamp_ms is None else from_micros(timestamp_ms * 1_000)
