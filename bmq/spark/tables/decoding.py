"""Records into rows: the columns of a record, and why a record does not fit. Built entirely from Spark expressions.

A record fits when its value can be read, each present field has its type, and each required field is present. Otherwise
the reason is one sentence, and the record's unchanged bytes go to the dead-letter table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as all of Spark's documentation calls it
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf
from pyspark.sql.types import StructType

from bmq.spark.tables.columns import OFFSET_COLUMN, PARTITION_COLUMN, dead_letter_columns, spark_type
from bmq.spark.tables.json_shape import JsonParse, ddl, parses
from bmq.spark.tables.markers import MARKER, marked_avro_schema
from bmq.spark.tables.protobuf_values import REASON, column_name, protobuf_columns
from bmq.spark.tables.upsert import CHANGE_COLUMN, Change
from bmq.table_definitions.avro_schema import AvroSchema
from bmq.table_definitions.definition import Format, Source, TableDefinition, TableField, TimeUnit
from bmq.table_definitions.index_layout import TIMESTAMP_COLUMN, IndexLayout
from bmq.table_definitions.row_changes import (
    DELETING_OPERATION,
    OPERATION_NAME,
    UPDATING_OPERATIONS,
    ChangeMode,
    before_name,
)

RECORD_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
"""Columns that the source must provide, like the Kafka connector."""
_CORRUPT: Final = "_bmq_corrupt"
_END: Final = "_bmq_end"
_ROW: Final = "_bmq_row"
_REASON: Final = "_bmq_reason"
_SHOWN_CHARACTERS_MAX: Final = 100
# Years 1 to 9999 in seconds: the range of timestamps for Iceberg's readers.
_SECONDS_MIN: Final = -62_135_596_800
_SECONDS_MAX: Final = 253_402_300_799
# Spark takes a time of day for one of today, whenever that is; readers of Iceberg end with the year 9999.
_WITH_YEAR: Final = r"^\s*\d{4}(?!\d)"
_PER_SECOND: Final = {TimeUnit.SECONDS: 1, TimeUnit.MILLISECONDS: 1_000, TimeUnit.MICROSECONDS: 1_000_000}
_ID_BYTES: Final = 5
# Spark follows a recursive schema to this depth.
_AVRO_DEPTH_MAX: Final = 15


@dataclass(frozen=True, slots=True)
class _Values:
    """A parsed value: each field's content before conversion, and the reason why nothing of it can be used."""

    leaves: dict[str, Column]
    reason: Column


def decoded(records: DataFrame, definition: TableDefinition) -> DataFrame:
    """The unchanged records, each with its row or the reason why it has none; see `fitting_rows` and `misfit_rows`.

    Where records change rows, also what each does.
    """
    records, values = _values(records.select(*RECORD_COLUMNS), definition, list(definition.value_fields))
    content = _content(definition, values)
    row = F.struct(*(column.alias(name) for name, column in content.columns.items()))
    change = [] if content.change is None else [content.change.alias(CHANGE_COLUMN)]
    # Spark moves a filter below the columns it is about and computes them anew there, at each place that names them: a value
    # of two fields was parsed 20 times. It moves none below a column that it believes to be nondeterministic.
    reason = F.when(F.spark_partition_id() >= 0, content.reason)
    return records.select(*RECORD_COLUMNS, row.alias(_ROW), reason.alias(_REASON), *change)


def fitting_rows(decoded_records: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Rows for a table with these columns; columns that the definition lacks are null. Behind them what a record does."""
    row_type = decoded_records.schema[_ROW].dataType
    assert isinstance(row_type, StructType)
    known = {name.lower() for name in row_type.names}
    own = {
        PARTITION_COLUMN: F.col("partition"),
        OFFSET_COLUMN: F.col("offset"),
        TIMESTAMP_COLUMN: F.col("timestamp"),
    }
    row = F.col(_ROW)
    chosen = [
        own[name] if name in own else row.getField(name) if name.lower() in known else F.lit(None) for name in columns
    ]
    fits = decoded_records.where(F.col(_REASON).isNull())
    change = [CHANGE_COLUMN] if CHANGE_COLUMN in decoded_records.columns else []
    return fits.select(*(column.alias(name) for name, column in zip(columns, chosen, strict=True)), *change)


def laid_out(rows: DataFrame, index: IndexLayout | None) -> DataFrame:
    """Rows in the order of an index's files; unchanged for any other table."""
    if index is None:
        return rows
    return rows.sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in index.sort_columns))


def misfit_rows(decoded_records: DataFrame) -> DataFrame:
    """Rows for a dead-letter table."""
    bad = decoded_records.where(F.col(_REASON).isNotNull()).withColumnRenamed(_REASON, "reason")
    return bad.select(*dead_letter_columns())


# --- what a record is, and does


@dataclass(frozen=True, slots=True)
class _Content:
    """`columns`: of the row. `reason`: null for a record that fits. `change`: what it does to a row; None: each is one."""

    columns: dict[str, Column]
    reason: Column
    change: Column | None


def _content(definition: TableDefinition, values: _Values) -> _Content:
    changes = definition.changes
    leaves = {field.name: _leaf(field, values) for field in definition.fields}
    columns = {field.name: _converted(field, leaves[field.name]) for field in definition.fields}

    def reasons(of: Sequence[TableField]) -> list[Column]:
        return [
            reason for field in of for reason in _reasons(definition, field, leaves[field.name], columns[field.name])
        ]

    of_row = reasons(definition.fields)
    if changes is None:
        return _Content(columns, F.coalesce(values.reason, *of_row), None)
    if changes.mode is ChangeMode.DEBEZIUM:
        return _envelope(definition, values, columns, of_row)
    is_tombstone = F.col("value").isNull() if definition.has_tombstones else F.lit(False)
    of_key = reasons([field for field in definition.fields if field.name in changes.key])
    reason = F.when(is_tombstone, F.coalesce(*of_key)).otherwise(F.coalesce(values.reason, *of_row))
    change = F.when(is_tombstone, Change.DELETE.value).otherwise(Change.UPSERT.value)
    return _Content(columns, reason, change)


def _envelope(
    definition: TableDefinition, values: _Values, after: dict[str, Column], after_reasons: list[Column]
) -> _Content:
    """A change as Debezium writes it. `after`: columns of the row afterwards, and `after_reasons` why that does not fit."""
    assert definition.changes is not None
    operation = values.leaves[OPERATION_NAME]
    has_value, is_deletion = F.col("value").isNotNull(), operation == DELETING_OPERATION
    columns, key_reasons = dict(after), list[Column]()
    for field in definition.fields:
        if field.name not in definition.changes.key:
            continue
        is_of_value = field.source is Source.VALUE
        leaf = values.leaves[before_name(field.name)] if is_of_value else _leaf(field, values)
        before = _converted(field, leaf)
        key_reasons += _reasons(definition, field, leaf, before)
        # What does nothing belongs to no key.
        columns[field.name] = F.when(has_value, F.when(is_deletion, before).otherwise(after[field.name]))
    shown = F.substring(operation, 1, _SHOWN_CHARACTERS_MAX)
    known = (*UPDATING_OPERATIONS, DELETING_OPERATION)
    no_operation = F.when(operation.isNull(), "the envelope has no op").when(
        ~operation.isin(*known), F.concat(F.lit("the envelope's op is "), shown, F.lit(f", none of {', '.join(known)}"))
    )
    of_row = F.when(is_deletion, F.coalesce(*key_reasons)).otherwise(F.coalesce(*after_reasons))
    # Behind each deletion Debezium sends a record without a value, for compaction.
    reason = F.when(has_value, F.coalesce(values.reason, no_operation, of_row))
    change = (
        F.when(~has_value, Change.NOTHING.value).when(is_deletion, Change.DELETE.value).otherwise(Change.UPSERT.value)
    )
    return _Content(columns, reason, change)


# --- values


def _values(records: DataFrame, definition: TableDefinition, fields: list[TableField]) -> tuple[DataFrame, _Values]:
    value = F.col("value")
    if not fields:
        return records, _Values({}, _nothing())
    match definition.format:
        case Format.RAW:
            return records, _Values({field.name: value for field in fields}, _nothing())
        case Format.JSON:
            return _json(records, fields, is_framed=definition.has_framed_json)
        case Format.AVRO:
            return _avro(records, definition, fields)
        case Format.PROTOBUF:
            return _protobuf(records, definition, fields)


def _json(records: DataFrame, fields: list[TableField], *, is_framed: bool) -> tuple[DataFrame, _Values]:
    value = F.col("value")
    # A value without its frame is read as an empty one: the reason that it has no schema id comes first.
    body = F.when(_is_framed(value), _framed_body(value)).otherwise(F.lit(b"")) if is_framed else value
    # Wrapped in our own object: the parser alone would take the first of two objects and ignore the rest. What follows the
    # value shows that it ended there: a brace too many would end our object.
    text = F.concat(F.lit('{"v":'), body.cast("string"), F.lit(f',"{_END}":true}}'))
    options = {"columnNameOfCorruptRecord": _CORRUPT, "mode": "PERMISSIVE"}
    all_parses = parses((field.name, field.steps, _json_type(field)) for field in fields)

    def parsed(parse: JsonParse, leaf: str | None) -> Column:
        return F.from_json(text, f"struct<v:{ddl(parse.shape, leaf)},{_END}:boolean,{_CORRUPT}:string>", options)

    typed = [parsed(parse, None).alias(f"_bmq_typed{number}") for number, parse in enumerate(all_parses)]
    records = records.select("*", *typed)
    results = [F.col(f"_bmq_typed{number}") for number in range(len(all_parses))]
    corrupt = [each.getField(_CORRUPT).isNotNull() | each.getField(_END).isNull() for each in results]
    # Parsing again as text finds the field at fault; only records that do not fit are parsed again.
    texts = [
        F.when(is_corrupt, parsed(parse, "string")).alias(f"_bmq_text{number}")
        for number, (parse, is_corrupt) in enumerate(zip(all_parses, corrupt, strict=True))
    ]
    records = records.select("*", *texts)
    no_text = F.when(~F.is_valid_utf8(body.cast("string")), "the value is no UTF-8")
    no_frame = [F.when(~_is_framed(value), "the value has no schema id before its JSON")] if is_framed else []
    leaves, reasons = {}, [_null_value(), *no_frame, no_text]
    for number, (parse, is_corrupt) in enumerate(zip(all_parses, corrupt, strict=True)):
        of_parse = [field for field in fields if field.name in parse.fields]
        root, said = F.col(f"_bmq_typed{number}").getField("v"), F.col(f"_bmq_text{number}").getField("v")
        for field in of_parse:
            leaves[field.name] = _at(root, field.steps)
        named = [_no_type(field, _at(said, field.steps), _at(root, field.steps)) for field in of_parse]
        form = F.lit("the value is no JSON object with the paths of the table")
        reasons += [F.when(is_corrupt, F.coalesce(*named, form)), F.when(root.isNull(), form)]
    return records, _Values(leaves, F.coalesce(*reasons))


def _avro(records: DataFrame, definition: TableDefinition, fields: list[TableField]) -> tuple[DataFrame, _Values]:
    from pyspark.sql.avro.functions import from_avro

    assert definition.avro is not None
    value = F.col("value")

    def read(data: Column, schema: Any) -> Column:
        options = {
            "mode": "PERMISSIVE",
            "avroSchema": marked_avro_schema(schema),
            "recursiveFieldMaxDepth": str(_depth(fields, _AVRO_DEPTH_MAX)),
        }
        return from_avro(data, json.dumps(schema), options)

    unreadable = F.lit("the value is no Avro record of the table's schema")
    by_id = definition.avro.by_id
    if not by_id:
        records = records.select("*", read(value, definition.avro.writer_schema).alias("_bmq_avro"))
        root = F.col("_bmq_avro")
        reason = F.coalesce(_null_value(), F.when(root.getField(MARKER).isNull(), unreadable))
        known = AvroSchema(definition.avro.writer_schema)
        return records, _Values({field.name: _avro_leaf(known, field, root) for field in fields}, reason)

    framed = _is_framed(value)
    # `conv` returns text; four bytes always fit into a long.
    schema_id = F.when(framed, F.conv(F.hex(F.substring(value, 2, 4)), 16, 10).try_cast("bigint"))
    records = records.select("*", schema_id.alias("_bmq_schema_id"))
    found = F.col("_bmq_schema_id")
    body = _framed_body(value)
    records = records.select(
        "*", *(F.when(found == number, read(body, by_id[number])).alias(f"_bmq_avro{number}") for number in by_id)
    )
    schemas = {number: records.schema[f"_bmq_avro{number}"].dataType for number in by_id}
    known_by_id = {number: AvroSchema(schema) for number, schema in by_id.items()}
    leaves = {}
    for field in fields:
        having = [number for number in by_id if _has(schemas[number], field.steps)]
        kind = _avro_kind(field)
        leaves[field.name] = F.coalesce(
            *(_avro_leaf(known_by_id[number], field, F.col(f"_bmq_avro{number}")).try_cast(kind) for number in having),
            F.lit(None).cast(kind),
        )
    markers = F.coalesce(*(F.col(f"_bmq_avro{number}").getField(MARKER) for number in by_id))
    reason = F.coalesce(
        _null_value(),
        F.when(~framed, "the value has no schema id before its Avro record"),
        F.when(~found.isin(*by_id), F.concat(F.lit("the table has no schema with id "), found.cast("string"))),
        F.when(markers.isNull(), unreadable),
    )
    return records, _Values(leaves, reason)


def _is_framed(value: Column) -> Column:
    """Whether a zero byte and four bytes of a schema's id stand before the value."""
    return (F.octet_length(value) >= _ID_BYTES) & (F.hex(F.substring(value, 1, 1)) == "00")


def _framed_body(value: Column) -> Column:
    return value.substr(F.lit(_ID_BYTES + 1), F.octet_length(value))


def _protobuf(records: DataFrame, definition: TableDefinition, fields: list[TableField]) -> tuple[DataFrame, _Values]:
    assert definition.protobuf is not None
    schema, message = definition.protobuf.descriptor_bytes, definition.protobuf.message
    paths = tuple(field.steps for field in fields)
    indexes_by_id = tuple(definition.protobuf.indexes_by_id.items())

    # Spark reads the function's input type from these annotations.
    def parsed(values: pa.Array) -> pa.Array:
        return protobuf_columns(schema, message, paths, indexes_by_id).decode(values)

    read = arrow_udf(parsed, protobuf_columns(schema, message, paths, indexes_by_id).spark_type, ArrowUDFType.SCALAR)
    records = records.select("*", read(F.col("value")).alias("_bmq_message"))
    root = F.col("_bmq_message")
    unreadable = F.when(root.getField(MARKER).isNull(), root.getField(REASON))
    leaves = {field.name: root.getField(column_name(number)) for number, field in enumerate(fields)}
    return records, _Values(leaves, F.coalesce(_null_value(), unreadable))


# --- fields


def _leaf(field: TableField, values: _Values) -> Column:
    """A record's content for a field, before conversion to the field's type."""
    match field.source:
        case Source.VALUE:
            return values.leaves[field.name]
        case Source.HEADER:
            wanted = F.filter(F.col("headers"), lambda header: header.getField("key") == field.steps[0])
            # The last header counts, as for clients that look one up by name.
            return F.try_element_at(wanted, F.lit(-1)).getField("value")
        case source:
            return F.col(source.value)


def _converted(field: TableField, leaf: Column) -> Column:
    if field.unit is not None:
        return _from_number(field.unit, leaf.try_cast("bigint"))
    column = leaf.try_cast(spark_type(field.type))
    if field.type in ("timestamp", "date"):
        return F.when(leaf.cast("string").rlike(_WITH_YEAR), column)
    return column


def _from_number(unit: TimeUnit, number: Column) -> Column:
    per_second = _PER_SECOND[unit]
    is_possible = number.between(_SECONDS_MIN * per_second, _SECONDS_MAX * per_second)
    convert = {
        TimeUnit.SECONDS: F.timestamp_seconds,
        TimeUnit.MILLISECONDS: F.timestamp_millis,
        TimeUnit.MICROSECONDS: F.timestamp_micros,
    }[unit]
    return F.when(is_possible, convert(number))


def _reasons(definition: TableDefinition, field: TableField, leaf: Column, column: Column) -> list[Column]:
    is_bytes = field.source in (Source.KEY, Source.HEADER) or (
        field.source is Source.VALUE and definition.format is Format.RAW
    )
    found = []
    if field.source is Source.VALUE and field.type not in ("string", "binary"):
        found.append(_no_type(field, leaf, column))
    if field.type == "string" and is_bytes:
        found.append(F.when(~F.is_valid_utf8(leaf.cast("string")), f"field {field.name} is no UTF-8"))
    if definition.is_required(field):
        found.append(F.when(column.isNull(), f"field {field.name} is missing"))
    return found


def _no_type(field: TableField, said: Column, column: Column) -> Column:
    shown = F.substring(said.cast("string"), 1, _SHOWN_CHARACTERS_MAX)
    sentence = F.concat(F.lit(f"field {field.name}: "), shown, F.lit(f" is no {field.type}"))
    return F.when(said.isNotNull() & column.isNull(), sentence)


def _json_type(field: TableField) -> str:
    """The type for the JSON parser. Times are parsed as text, because it would read a number as seconds."""
    if field.type in ("timestamp", "date"):
        return "bigint" if field.unit is not None else "string"
    return spark_type(field.type)


def _avro_kind(field: TableField) -> str:
    """One type for values that several schemas may write in different types."""
    return "bigint" if field.unit is not None else spark_type(field.type)


def _avro_leaf(schema: AvroSchema, field: TableField, root: Column) -> Column:
    """A time whose column is a number stays that number: Spark's own cast gives whole seconds."""
    leaf = _at(root, field.steps)
    if field.unit is None and field.type != "long":
        return leaf
    match schema.logical_type(field.steps):
        case "timestamp-millis" | "local-timestamp-millis":
            return F.unix_millis(leaf.cast("timestamp"))
        case "timestamp-micros" | "local-timestamp-micros":
            return F.unix_micros(leaf.cast("timestamp"))
        case _:
            return leaf


def _at(root: Column, steps: Sequence[str]) -> Column:
    for step in steps:
        root = root.getField(step)
    return root


def _has(schema: Any, steps: Sequence[str]) -> bool:
    for step in steps:
        if step not in getattr(schema, "names", ()):
            return False
        schema = schema[step].dataType
    return True


def _depth(fields: Sequence[TableField], limit: int) -> int:
    return min(limit, max(len(field.steps) for field in fields) + 1)


def _null_value() -> Column:
    return F.when(F.col("value").isNull(), "the value is null")


def _nothing() -> Column:
    return F.lit(None).cast("string")
