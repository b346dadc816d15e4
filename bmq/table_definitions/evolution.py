"""Which changes a table with data allows: columns may be added, and rows already written stay right. Decisions only.

Allowed: more fields, wider types, fields that are no longer required, descriptions, another treatment of records that
do not fit, and schemas that read the old values as before. Everything else is refused with the reason and, if there is
one, a workaround.
"""

from __future__ import annotations

from typing import Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.table_definitions.column_types import is_widening
from bmq.table_definitions.definition import (
    AvroFormat,
    Format,
    Partitioning,
    ProtobufFormat,
    Source,
    TableDefinition,
    TableField,
)

_FIXED: Final = {
    "name": "a table keeps its name",
    "topic": "a table keeps its topic; make another table of the other one",
    "format": "a table keeps the format of its values",
    "json_framing": "values in the topic are written so; make another table for the other ones",
    "partitioning": "a table keeps its partitioning; make another table with the other one",
    "starting_offsets": "where a table begins was settled when it was made",
    "changes": "rows were written so; make another table with the other key or mode",
}


class AlterationRefused(BmqError):
    """The existing table cannot become the wanted one."""

    code = ErrorCode.INVALID_REQUEST


def alterations(old: TableDefinition, new: TableDefinition) -> tuple[str, ...]:
    """A sentence for each change; empty when the two mean the same. Raises AlterationRefused."""
    for name, sentence in _FIXED.items():
        if getattr(old, name) != getattr(new, name):
            raise AlterationRefused(f"{name} is {_text(getattr(old, name))} and stays so: {sentence}")
    if old.dead_letter_table is not None and new.dead_letter_table not in (None, old.dead_letter_table):
        raise AlterationRefused(
            f"dead_letter is {old.dead_letter_table} and stays so: what did not fit so far is there"
        )
    changes: list[str] = _index_changes(old, new)
    added = {each.name: each for each in new.fields}
    for before in old.fields:
        after = added.pop(before.name, None)
        if after is None:
            raise AlterationRefused(
                f"field {before.name} is missing: columns are neither dropped nor renamed, since files and readers have them"
            )
        changes += _field_changes(before, after)
    for each in added.values():
        if each.required and each.source in (Source.VALUE, Source.KEY, Source.HEADER):
            raise AlterationRefused(
                f"field {each.name} cannot be required: rows that are there do not have it; leave required out"
            )
        changes.append(f"field {each.name} ({each.type}) is added; rows that are there have null")
    changes += _format_changes(old, new)
    if new.dead_letter_table != old.dead_letter_table:
        to = "stop the job" if new.dead_letter_table is None else f"go to {new.dead_letter_table}"
        changes.append(f"records that do not fit {to}")
    if new.description != old.description:
        changes.append("the table's description is another")
    return tuple(changes)


def _field_changes(old: TableField, new: TableField) -> list[str]:
    """Raises AlterationRefused."""
    changes = []
    if (new.source, new.unit) != (old.source, old.unit) or new.steps != old.steps:
        raise AlterationRefused(
            f"field {old.name} would take its values from elsewhere than in the rows that are there; add a field instead"
        )
    if new.type != old.type:
        if not is_widening(old.type, new.type):
            raise AlterationRefused(
                f"field {old.name} is a {old.type} and cannot become a {new.type}: only int to long, float to double "
                "and decimals with more digits before the point; add a field instead"
            )
        changes.append(f"field {old.name} becomes a {new.type}")
    if new.required and not old.required:
        raise AlterationRefused(f"field {old.name} cannot become required: rows that are there may lack it")
    if old.required and not new.required:
        changes.append(f"field {old.name} is no longer required")
    if new.description != old.description:
        changes.append(f"the description of field {old.name} is another")
    return changes


def _index_changes(old: TableDefinition, new: TableDefinition) -> list[str]:
    """Raises AlterationRefused."""
    before, after = old.index, new.index
    if before is None and after is None:
        return []
    if before is None or after is None or before.model_copy(update={"retention_ms": after.retention_ms}) != after:
        raise AlterationRefused("index: only its retention may change; make another index with the other keys")
    known = {each.name for each in old.fields}
    added = next((each.name for each in new.fields if each.name not in known), None)
    if added is not None:
        raise AlterationRefused(
            f"field {added} cannot be added to an index: rows that are there lack it, so it would not find them; "
            "make another index"
        )
    if after.retention_ms != before.retention_ms:
        return [f"rows are kept for {after.retention_ms} ms" if after.retention_ms else "rows are kept for ever"]
    return []


def _format_changes(old: TableDefinition, new: TableDefinition) -> list[str]:
    """Raises AlterationRefused."""
    if old.format is Format.AVRO:
        assert old.avro is not None
        assert new.avro is not None
        return _avro_changes(old.avro, new.avro)
    if old.format is Format.PROTOBUF and old.protobuf != new.protobuf:
        assert old.protobuf is not None
        assert new.protobuf is not None
        changes = _index_additions(old.protobuf, new.protobuf)
        if old.protobuf.descriptor_set != new.protobuf.descriptor_set or old.protobuf.message != new.protobuf.message:
            _require_same_wire_form(old, new)
            changes.append("values are read by another descriptor set")
        return changes
    return []


def _index_additions(old: ProtobufFormat, new: ProtobufFormat) -> list[str]:
    """Raises AlterationRefused."""
    if bool(old.message_indexes) != bool(new.message_indexes):
        raise AlterationRefused(
            "protobuf.message_indexes says what stands before the values that are in the topic; make another table for the other ones"
        )
    for schema_id, indexes in old.message_indexes.items():
        if new.message_indexes.get(schema_id) != indexes:
            raise AlterationRefused(
                f"Protobuf schema {schema_id} keeps its indexes: values in the topic have its id; give the new schema another id"
            )
    return [
        f"Protobuf schema {schema_id} is added" for schema_id in sorted(new.indexes_by_id.keys() - old.indexes_by_id)
    ]


def _avro_changes(old: AvroFormat, new: AvroFormat) -> list[str]:
    if not old.writer_schemas:
        if new != old:
            raise AlterationRefused(
                "writer_schema stays as it is: a bare Avro value does not say by which schema it was written, so the values "
                "that are in the topic already would be read wrongly; write the new ones to another topic, or with ids"
            )
        return []
    for schema_id, schema in old.writer_schemas.items():
        if new.writer_schemas.get(schema_id) != schema:
            raise AlterationRefused(
                f"Avro schema {schema_id} stays as it is: values in the topic have its id; give the new schema another id"
            )
    added = sorted(new.by_id.keys() - old.by_id.keys())
    return [f"Avro schema {schema_id} is added" for schema_id in added]


def _require_same_wire_form(old: TableDefinition, new: TableDefinition) -> None:
    """Check that existing values are read as before: number and kind of each field. Raises AlterationRefused."""
    # Imported late: only tables of this format need it.
    from bmq.table_definitions.protobuf_schema import ProtobufSchema

    assert old.protobuf is not None
    assert new.protobuf is not None
    before = ProtobufSchema(old.protobuf.descriptor_bytes, old.protobuf.message)
    after = ProtobufSchema(new.protobuf.descriptor_bytes, new.protobuf.message)
    for each in old.value_fields:
        if before.path(each.steps) != after.path(each.steps):
            raise AlterationRefused(
                f"field {each.name} has another number or type in the new descriptor set: values that are in the topic "
                "already would be read wrongly"
            )


def _text(value: object) -> str:
    if isinstance(value, tuple):
        parts = [f"{each.by.value} of {each.field}" for each in value if isinstance(each, Partitioning)]
        return ", ".join(parts) or "none"
    return str(value)
