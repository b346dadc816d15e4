"""All versions of a subject's Protobuf schema, as one table reads them: by the newest one, which must read the older ones right.

Decisions only.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from bmq.table_definitions.avro_schema import SchemaRefused
from bmq.table_definitions.definition import WRITER_SCHEMAS_MAX, InvalidDefinition, TableField
from bmq.table_definitions.leaf_columns import SchemaLeaves
from bmq.table_definitions.protobuf_files import RegisteredFile
from bmq.table_definitions.protobuf_leaves import protobuf_leaves
from bmq.table_definitions.protobuf_schema import ProtobufSchema


class Version(Protocol):
    """A version of the subject, as from_registry has it."""

    @property
    def version(self) -> int: ...

    @property
    def schema_id(self) -> int: ...

    @property
    def text(self) -> str: ...

    @property
    def imports(self) -> Mapping[str, str]: ...


class ProtobufVersions:
    """`form`: the part `protobuf` of a definition. `leaves`: of the newest version."""

    def __init__(
        self, subject: str, schemas: Mapping[int, ProtobufSchema], form: dict[str, Any], leaves: SchemaLeaves
    ) -> None:
        self.form = form
        self.leaves = leaves
        self._subject = subject
        self._schemas = schemas

    def check(self, fields: Iterable[TableField]) -> None:
        """Raises InvalidDefinition: the newest version reads a field of an older one wrongly."""
        *older, newest = self._schemas
        for each in fields:
            for version in older:
                why = self._schemas[version].conflict(self._schemas[newest], each.steps)
                if why is not None:
                    raise InvalidDefinition(f"subject {self._subject}, version {version}: {why}; name a later version")


def protobuf_versions(
    subject: str, versions: Sequence[Version], message: str, known: Mapping[str, tuple[int, ...]]
) -> ProtobufVersions:
    """`versions`: oldest first. `message`: empty for the first of the newest version. `known`: ids that the table knows already.

    Raises InvalidDefinition.
    """
    count = len({*known, *(str(each.schema_id) for each in versions)})
    if count > WRITER_SCHEMAS_MAX:
        raise InvalidDefinition(
            f"subject {subject} has {count} versions, a table knows {WRITER_SCHEMAS_MAX}; name the oldest one to take"
        )
    schemas: dict[int, ProtobufSchema] = {}
    indexes: dict[str, tuple[int, ...]] = dict(known)
    newest = b""
    name = message
    leaves = SchemaLeaves((), ())
    for each in reversed(versions):
        try:
            file = RegisteredFile(each.text, each.imports)
            name = name or file.first_message
            newest = newest or file.descriptor_set
            indexes[str(each.schema_id)] = file.indexes(name)
            schemas[each.version] = ProtobufSchema(file.descriptor_set, name)
            if len(schemas) == 1:
                leaves = protobuf_leaves(schemas[each.version])
        except SchemaRefused as error:
            raise InvalidDefinition(f"subject {subject}, version {each.version}: {error}") from None
    form = {
        "message": name,
        "descriptor_set": base64.b64encode(newest).decode(),
        "message_indexes": {schema_id: indexes[schema_id] for schema_id in sorted(indexes, key=int)},
    }
    return ProtobufVersions(subject, dict(reversed(schemas.items())), form, leaves)
