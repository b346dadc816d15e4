"""A table's definition out of the schemas that a registry has for its topic. Decisions only.

The columns are those of the newest version. Values are framed as Confluent's serializers write them: a zero byte, the four bytes
of a schema's id (big-endian), the value. Every version's id is known to an Avro table, so that old records are read too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.table_definitions.avro_leaves import avro_leaves
from bmq.table_definitions.avro_schema import SchemaRefused
from bmq.table_definitions.definition import WRITER_SCHEMAS_MAX, Format, InvalidDefinition, TableDefinition
from bmq.table_definitions.json_schema import json_schema_leaves
from bmq.table_definitions.leaf_columns import LeftOut, SchemaLeaves, fields_of
from bmq.table_definitions.row_changes import AFTER, ChangeMode

_FORMATS: Final = {"AVRO": Format.AVRO, "JSON": Format.JSON, "PROTOBUF": Format.PROTOBUF}


@dataclass(frozen=True, slots=True)
class RegisteredVersion:
    """One version of a subject. `kind`: AVRO, JSON or PROTOBUF. `has_references`: it needs schemas of other subjects.

    Of Protobuf, `text` is Base64 of a FileDescriptorProto, and `imports` has those of other subjects, by the name of the import.
    """

    version: int
    schema_id: int
    kind: str
    text: str
    has_references: bool = False
    imports: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DefinedTable:
    """`left_out`: parts of the newest schema without a column."""

    definition: TableDefinition
    left_out: tuple[LeftOut, ...]


def define_table(
    name: str,
    topic: str,
    subject: str,
    versions: Sequence[RegisteredVersion],
    changes: Mapping[str, Any] | None = None,
    message: str = "",
) -> DefinedTable:
    """`versions`: oldest first. `changes`: that part of the definition. `message`: of Protobuf, its full name; empty: the first.

    Raises InvalidDefinition.
    """
    form = {"name": name, "topic": topic}
    if message and _newest(subject, versions).kind != "PROTOBUF":
        raise InvalidDefinition(f"subject {subject} has no Protobuf schemas, so the table has no message")
    return _defined(form if changes is None else {**form, "changes": changes}, subject, versions, None, message)


def refreshed_table(present: TableDefinition, subject: str, versions: Sequence[RegisteredVersion]) -> DefinedTable:
    """The present definition with the columns and ids of newer versions; its own columns stay. Raises InvalidDefinition."""
    newest = _newest(subject, versions)
    is_framed = (
        present.has_framed_json
        or (present.avro is not None and present.avro.writer_schemas)
        or (present.protobuf is not None and present.protobuf.message_indexes)
    )
    if present.format is not _FORMATS.get(newest.kind) or not is_framed:
        raise InvalidDefinition(
            f"table {present.name} reads {present.format.value} without ids of schemas, or another format than subject "
            f"{subject}; define another table"
        )
    form = json.loads(present.to_json())
    message = "" if present.protobuf is None else present.protobuf.message
    return _defined(form, subject, versions, present, message)


def _defined(
    form: dict[str, Any],
    subject: str,
    versions: Sequence[RegisteredVersion],
    present: TableDefinition | None,
    message: str,
) -> DefinedTable:
    newest = _newest(subject, versions)
    if newest.kind == "PROTOBUF":
        # Imported late: only tables of this format need it.
        from bmq.table_definitions.protobuf_versions import protobuf_versions

        known = {} if present is None or present.protobuf is None else present.protobuf.message_indexes
        read = protobuf_versions(subject, versions, message, known)
        form["protobuf"] = read.form
        defined = _with_columns(form, subject, newest, present, read.leaves)
        read.check(defined.definition.value_fields)
        return defined
    schemas = {each.schema_id: _parsed(each, subject) for each in versions}
    if newest.kind == "AVRO":
        known_schemas = {} if present is None or present.avro is None else dict(present.avro.writer_schemas)
        known_schemas |= {str(schema_id): schema for schema_id, schema in schemas.items()}
        if len(known_schemas) > WRITER_SCHEMAS_MAX:
            raise InvalidDefinition(
                f"subject {subject} has {len(known_schemas)} versions, a table knows {WRITER_SCHEMAS_MAX}; name the oldest one to take"
            )
        form["avro"] = {"writer_schemas": known_schemas}
    else:
        form["json_framing"] = "registry"
    return _with_columns(form, subject, newest, present, _leaves(newest, schemas[newest.schema_id], subject))


def _with_columns(
    form: dict[str, Any],
    subject: str,
    newest: RegisteredVersion,
    present: TableDefinition | None,
    found: SchemaLeaves,
) -> DefinedTable:
    changes = form.get("changes")
    if changes is not None and changes.get("mode") == ChangeMode.DEBEZIUM:
        found = _row_afterwards(found, (*changes.get("envelope", ()), AFTER))
        if not found.leaves:
            raise InvalidDefinition(
                f"subject {subject}, version {newest.version}: it has no record {AFTER}, so it is no envelope of Debezium"
            )
    fields = fields_of(found.leaves, () if present is None else present.fields)
    if not fields:
        raise InvalidDefinition(f"subject {subject}, version {newest.version}: it has no value that a column can hold")
    form |= {"fields": [json.loads(each.model_dump_json()) for each in fields], "format": _FORMATS[newest.kind].value}
    return DefinedTable(TableDefinition.from_json(json.dumps(form)), found.left_out)


def _row_afterwards(found: SchemaLeaves, at: tuple[str, ...]) -> SchemaLeaves:
    """Of an envelope the parts of the row after a change, with their paths in the row."""
    deep = len(at)
    return SchemaLeaves(
        tuple(
            replace(each, steps=each.steps[deep:])
            for each in found.leaves
            if each.steps[:deep] == at and each.steps[deep:]
        ),
        tuple(replace(each, steps=each.steps[deep:]) for each in found.left_out if each.steps[:deep] == at),
    )


def _newest(subject: str, versions: Sequence[RegisteredVersion]) -> RegisteredVersion:
    if not versions:
        raise InvalidDefinition(f"subject {subject} has no version")
    newest = versions[-1]
    if newest.kind not in _FORMATS:
        raise InvalidDefinition(
            f"subject {subject} has schemas of type {newest.kind[:40]}: AVRO, JSON and PROTOBUF are read from a registry"
        )
    other = next((each for each in versions if each.kind != newest.kind), None)
    if other is not None:
        raise InvalidDefinition(
            f"subject {subject} has version {other.version} of type {other.kind[:40]} beside {newest.kind}: name a later version"
        )
    referring = next((each for each in versions if each.has_references and each.kind != "PROTOBUF"), None)
    if referring is not None:
        raise InvalidDefinition(
            f"subject {subject}, version {referring.version}: its schema refers to other subjects, which is not supported; "
            "write the definition with the whole schema"
        )
    return newest


def _parsed(version: RegisteredVersion, subject: str) -> Any:
    try:
        return json.loads(version.text)
    except (ValueError, RecursionError):
        if version.kind == "AVRO" and version.text.isidentifier():
            return version.text  # a primitive type without quotes
        raise InvalidDefinition(f"subject {subject}, version {version.version}: its schema is no JSON") from None


def _leaves(version: RegisteredVersion, schema: Any, subject: str) -> SchemaLeaves:
    try:
        return avro_leaves(schema) if version.kind == "AVRO" else json_schema_leaves(schema)
    except SchemaRefused as error:
        raise InvalidDefinition(f"subject {subject}, version {version.version}: {error}") from None
