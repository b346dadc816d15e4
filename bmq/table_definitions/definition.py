"""The definition of a table made from a topic: columns and their sources, partitions, and records that do not fit.

With `index` the table is laid out for lookups by key (index_layout.py), with `changes` records change rows (row_changes.py).

A definition is a value: it is checked as a whole when created, and its JSON form gives an equal one. Each refusal is
one sentence. docs/TABLES.md describes the form for users.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictInt,
    StringConstraints,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import ErrorDetails, PydanticCustomError

from bmq.descriptor_sets.base64_text import IS_BASE64
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.table_definitions.avro_schema import AvroSchema, SchemaRefused
from bmq.table_definitions.column_types import ColumnType
from bmq.table_definitions.index_layout import IndexLayout, layout_fault
from bmq.table_definitions.protobuf_framing import INDEX_MAX, INDEXES_MAX
from bmq.table_definitions.row_changes import (
    AFTER,
    BEFORE,
    OPERATION,
    OPERATION_NAME,
    RowChanges,
    before_name,
    changes_fault,
    has_tombstones,
)

DEFINITION_BYTES_MAX: Final = 256 * 1024
FIELDS_MAX: Final = 1_000
STEPS_MAX: Final = 32
PARTITIONINGS_MAX: Final = 8
BUCKETS_MAX: Final = 65_536
WRITER_SCHEMAS_MAX: Final = 100
SCHEMA_ID_MAX: Final = 2**31 - 1
TABLE_NAME: Final = r"[a-z][a-z0-9_]{0,99}"
_SHOWN_MAX: Final = 40
RESERVED_PREFIX: Final = "_bmq"
"""Prefix of the job's own columns."""
DEAD_LETTER_SUFFIX: Final = "_dead_letter"
DEAD_LETTER_COLUMNS: Final[Mapping[str, str]] = {
    "topic": "string",
    "partition": "int",
    "offset": "long",
    "timestamp": "timestamp",
    "reason": "string",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""Columns of every dead-letter table, with Spark's types; all but the first three may be null."""


class InvalidDefinition(BmqError):
    """The definition is invalid; the message says what is wrong, and where."""

    code = ErrorCode.INVALID_REQUEST


class Format(StrEnum):
    """What a record's value is. Only `raw` takes any bytes, as one column."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    RAW = "raw"


class Source(StrEnum):
    """Which part of a record a column comes from."""

    VALUE = "value"
    KEY = "key"
    HEADER = "header"
    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"


class TimeUnit(StrEnum):
    """The unit of a numeric timestamp, which counts from 1970-01-01 00:00 UTC."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"


class Transform(StrEnum):
    """How a column's value becomes a partition's (Iceberg's transforms of these names)."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"
    IDENTITY = "identity"
    BUCKET = "bucket"


class JsonFraming(StrEnum):
    """The bytes before a JSON value. REGISTRY: a zero byte and four bytes of a schema's id (Confluent's framing)."""

    REGISTRY = "registry"


class Misfits(StrEnum):
    """What becomes of records that do not fit: kept in the dead-letter table, or the job stops before the first one."""

    DEAD_LETTER = "dead_letter"
    STOP = "stop"


class StartingOffsets(StrEnum):
    """Where a table begins."""

    EARLIEST = "earliest"
    LATEST = "latest"


_TYPES_OF: Final[Mapping[Source, tuple[str, ...]]] = {
    Source.KEY: ("string", "binary"),
    Source.HEADER: ("string", "binary"),
    Source.TOPIC: ("string",),
    Source.PARTITION: ("int", "long"),
    Source.OFFSET: ("long",),
    Source.TIMESTAMP: ("timestamp",),
}
_RAW_TYPES: Final = ("string", "binary")
_TYPES_FOR: Final[Mapping[Transform, tuple[str, ...]]] = {
    Transform.HOUR: ("timestamp",),
    Transform.DAY: ("timestamp", "date"),
    Transform.MONTH: ("timestamp", "date"),
}
_NO_BUCKETS: Final = ("boolean", "float", "double")
_TIMES: Final = (Transform.HOUR, Transform.DAY, Transform.MONTH)


def _refusal(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("definition", "{sentence}", {"sentence": sentence})


def _split(path: object) -> object:
    """A path may be a text with dots; a list allows names that contain dots."""
    return path.split(".") if isinstance(path, str) and path else path


def _is_none(value: object) -> bool:
    return value is None


def _form(pattern: str, words: str) -> BeforeValidator:
    """Refuse a text that does not match the pattern, with these words."""

    def checked(text: object) -> object:
        if isinstance(text, str) and re.fullmatch(pattern, text) is None:
            raise _refusal(f"{text[:_SHOWN_MAX]!r} is no such name: {words}")
        return text

    return BeforeValidator(checked)


_TABLE_WORDS: Final = "small letters, digits and underscores, at most 100, beginning with a letter"
_DEAD_LETTER: Final = r"[a-z][a-z0-9_]{0,127}"
_DEAD_LETTER_WORDS: Final = "small letters, digits and underscores, at most 128, beginning with a letter"
_TOPIC: Final = r"[a-zA-Z0-9._-]{1,249}"
_TOPIC_WORDS: Final = "letters, digits, dots, underscores and hyphens, at most 249"
_FIELD: Final = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
_FIELD_WORDS: Final = "letters, digits and underscores, at most 128, not beginning with a digit"
_MESSAGE: Final = r"[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*"
_MESSAGE_WORDS: Final = "a message's full name is PACKAGE.MESSAGE"

# The Field comes before the check: after it, the pattern would be missing in the JSON schema.
TableName = Annotated[str, Field(pattern=f"^{TABLE_NAME}$", description=_TABLE_WORDS), _form(TABLE_NAME, _TABLE_WORDS)]
DeadLetterName = Annotated[str, Field(pattern=f"^{_DEAD_LETTER}$"), _form(_DEAD_LETTER, _DEAD_LETTER_WORDS)]
TopicText = Annotated[str, Field(pattern=f"^{_TOPIC}$"), _form(_TOPIC, _TOPIC_WORDS)]
FieldName = Annotated[str, Field(pattern=f"^{_FIELD}$", description=_FIELD_WORDS), _form(_FIELD, _FIELD_WORDS)]
MessageName = Annotated[str, Field(pattern=f"^{_MESSAGE}$"), _form(_MESSAGE, _MESSAGE_WORDS)]
Description = Annotated[str, StringConstraints(max_length=1_024)]
Step = Annotated[str, StringConstraints(min_length=1, max_length=255)]
SchemaId = Annotated[str, StringConstraints(pattern=r"^(0|[1-9][0-9]{0,9})$")]
MessageIndexes = Annotated[
    tuple[Annotated[StrictInt, Field(ge=0, le=INDEX_MAX)], ...], Field(min_length=1, max_length=INDEXES_MAX)
]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TableField(_Part):
    """One column. `path`: the names that lead to it within the value, or a header's name; the column's own if left out.

    `required`: a record that has no such value does not fit; otherwise the column is null.
    """

    name: FieldName
    type: ColumnType
    source: Source = Source.VALUE
    path: Annotated[
        tuple[Step, ...],
        BeforeValidator(_split, json_schema_input_type=str | list[str]),
        Field(max_length=STEPS_MAX, description="A text with dots, or a list of names"),
    ] = ()
    unit: Annotated[TimeUnit | None, Field(description="Unit of a timestamp that the value has as a number")] = None
    required: StrictBool = False
    description: Description = ""

    @property
    def steps(self) -> tuple[str, ...]:
        """The path in full."""
        return self.path or (self.name,)

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if self.name.lower().startswith(RESERVED_PREFIX):
            raise _refusal(f"field {self.name}: names that begin with {RESERVED_PREFIX} are kept for the job")
        types = _TYPES_OF.get(self.source)
        if types is not None and self.type not in types:
            raise _refusal(
                f"field {self.name}: the {self.source.value} of a record is a {' or a '.join(types)}, not a {self.type}"
            )
        if self.path and self.source not in (Source.VALUE, Source.HEADER):
            raise _refusal(f"field {self.name}: the {self.source.value} of a record has no path")
        if self.source is Source.HEADER and len(self.path) > 1:
            raise _refusal(f"field {self.name}: a header has one name; write one with dots as a list")
        if self.unit is not None and (self.source is not Source.VALUE or self.type != "timestamp"):
            raise _refusal(f"field {self.name}: only a timestamp out of the value has a unit")
        return self


class AvroFormat(_Part):
    """How values are written: all by one schema, or each behind the id of its own (Confluent's framing).

    `writer_schema`: values are bare Avro, all by this schema. `writer_schemas`: a zero byte and the four bytes of a
    schema's id (big-endian) stand before each value; those with other ids do not fit.
    """

    writer_schema: JsonValue = None
    writer_schemas: Annotated[dict[SchemaId, JsonValue], Field(default_factory=dict, max_length=WRITER_SCHEMAS_MAX)]

    @field_validator("writer_schema", "writer_schemas")
    @classmethod
    def _is_writable(cls, schema: Any) -> Any:
        try:
            # Encoded, since a text may contain a lone surrogate, which JSON can express and UTF-8 cannot.
            json.dumps(schema, allow_nan=False, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise _refusal("it cannot be written as JSON in UTF-8") from None
        return schema

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        if (self.writer_schema is None) == (not self.writer_schemas):
            raise _refusal("avro: give either writer_schema, or writer_schemas with the id of each")
        if max(self.by_id, default=0) > SCHEMA_ID_MAX:
            raise _refusal(f"avro: a schema's id is at most {SCHEMA_ID_MAX}")
        return self

    @property
    def by_id(self) -> Mapping[int, JsonValue]:
        """Empty for bare values."""
        return {int(schema_id): schema for schema_id, schema in self.writer_schemas.items()}


class ProtobufFormat(_Part):
    """`message`: its full name. `descriptor_set`: Base64 of what `protoc --include_imports --descriptor_set_out` writes.

    `message_indexes`: by the id of a registry's schema, where the message is in it. A zero byte, the four bytes of the id and
    these indexes stand before each value; others do not fit. Left out: values are bare messages.
    """

    message: MessageName
    descriptor_set: Annotated[str, IS_BASE64]
    message_indexes: Annotated[
        dict[SchemaId, MessageIndexes], Field(default_factory=dict, max_length=WRITER_SCHEMAS_MAX)
    ]

    @field_validator("message_indexes")
    @classmethod
    def _has_ids(cls, indexes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        if max(map(int, indexes), default=0) > SCHEMA_ID_MAX:
            raise _refusal(f"a schema's id is at most {SCHEMA_ID_MAX}")
        return indexes

    @model_serializer(mode="wrap")
    def _form(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Earlier releases refuse a key that they do not know.
        form: dict[str, Any] = whole(self)
        if not form.get("message_indexes"):
            form.pop("message_indexes", None)
        return form

    @property
    def indexes_by_id(self) -> Mapping[int, tuple[int, ...]]:
        """Empty for bare values."""
        return {int(schema_id): indexes for schema_id, indexes in self.message_indexes.items()}

    @property
    def descriptor_bytes(self) -> bytes:
        """A serialized FileDescriptorSet."""
        return base64.b64decode(self.descriptor_set)


class Partitioning(_Part):
    """One dimension of a table's partitions. For the record's own time name a field whose source is `timestamp`."""

    by: Transform
    field: FieldName
    buckets: Annotated[StrictInt, Field(ge=1, le=BUCKETS_MAX)] | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if (self.by is Transform.BUCKET) != (self.buckets is not None):
            raise _refusal("partitioning: by bucket needs the number of buckets, and nothing else has one")
        return self


class TableDefinition(_Part):
    """A table made of a topic. Equal definitions have equal JSON."""

    name: TableName
    topic: TopicText
    format: Format
    fields: Annotated[tuple[TableField, ...], Field(min_length=1, max_length=FIELDS_MAX)]
    partitioning: Annotated[tuple[Partitioning, ...], Field(max_length=PARTITIONINGS_MAX)] = ()
    avro: AvroFormat | None = None
    protobuf: ProtobufFormat | None = None
    json_framing: Annotated[JsonFraming | None, Field(description="The bytes before a JSON value; left out: none")] = (
        None
    )
    misfits: Misfits = Misfits.DEAD_LETTER
    dead_letter: Annotated[
        DeadLetterName | None, Field(description=f"Table for records that do not fit [NAME{DEAD_LETTER_SUFFIX}]")
    ] = None
    starting_offsets: StartingOffsets = StartingOffsets.EARLIEST
    description: Description = ""
    # Left out where there is none: earlier releases refuse a definition with keys that they do not know.
    index: Annotated[IndexLayout | None, Field(exclude_if=_is_none, description="Layout for lookups by key")] = None
    changes: Annotated[
        RowChanges | None, Field(exclude_if=_is_none, description="How records change rows; left out: each is a row")
    ] = None

    @property
    def value_fields(self) -> tuple[TableField, ...]:
        """The fields that are read from a record's value, with whole paths.

        Of an envelope these are the fields of the row afterwards, those of the key before, and the operation.
        """
        of_value = tuple(each for each in self.fields if each.source is Source.VALUE)
        changes = self.changes
        if changes is None or not changes.has_envelope:
            return of_value

        def moved(field: TableField, name: str, *steps: str) -> TableField:
            return field.model_copy(update={"name": name, "path": changes.within(*steps)})

        after = (moved(each, each.name, AFTER, *each.steps) for each in of_value)
        keys = (each for each in of_value if each.name in changes.key)
        before = (moved(each, before_name(each.name), BEFORE, *each.steps) for each in keys)
        return (*after, *before, moved(TableField(name="op", type="string"), OPERATION_NAME, OPERATION))

    @property
    def has_tombstones(self) -> bool:
        """Whether a record without a value deletes the row of its key."""
        return self.changes is not None and has_tombstones(
            self.changes, {each.name: each.source.value for each in self.fields}
        )

    def is_required(self, field: TableField) -> bool:
        """Whether a record without the field does not fit: it is required, or part of the key."""
        return field.required or (self.changes is not None and field.name in self.changes.key)

    @property
    def dead_letter_table(self) -> str | None:
        """Where records go that do not fit, with DEAD_LETTER_COLUMNS; None when they stop the job."""
        if self.misfits is Misfits.STOP:
            return None
        return self.dead_letter or f"{self.name}{DEAD_LETTER_SUFFIX}"

    def field(self, name: str) -> TableField | None:
        """By its exact name."""
        return next((each for each in self.fields if each.name == name), None)

    # --- JSON

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Raises InvalidDefinition: no JSON, an unknown key, or something that cannot be."""
        if len(text) > DEFINITION_BYTES_MAX:
            raise InvalidDefinition(f"the definition has {len(text)} bytes, {DEFINITION_BYTES_MAX} are allowed")
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise InvalidDefinition(sentence_of(error.errors(include_url=False, include_context=False))) from None

    def to_json(self, *, indent: int | None = None) -> str:
        """Every key, in the order above, but `index`, `changes` and `json_framing` only where they are given; `from_json` gives the same
        definition.
        """
        return self.model_dump_json(indent=indent)

    @model_serializer(mode="wrap")
    def _form(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Earlier releases refuse a key that they do not know.
        form: dict[str, Any] = whole(self)
        if form.get("json_framing") is None:
            form.pop("json_framing", None)
        return form

    @property
    def has_framed_json(self) -> bool:
        return self.json_framing is JsonFraming.REGISTRY

    # --- checks of the whole

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        names = Counter(each.name.lower() for each in self.fields)
        twice = next((each.name for each in self.fields if names[each.name.lower()] > 1), None)
        if twice is not None:
            raise _refusal(f"field {twice} is there more than once (small and capital letters count as the same)")
        for kind, given in ((Format.AVRO, self.avro), (Format.PROTOBUF, self.protobuf)):
            if (self.format is kind) != (given is not None):
                raise _refusal(
                    f"{kind.value} says how values are written, so it is given when the format is {kind.value}, and only then"
                )
        if self.json_framing is not None and self.format is not Format.JSON:
            raise _refusal(
                "json_framing says what stands before JSON, so it is given when the format is json, and only then"
            )
        if self.dead_letter is not None and self.misfits is Misfits.STOP:
            raise _refusal("dead_letter names a table for records that do not fit, but misfits is stop")
        if self.dead_letter == self.name:
            raise _refusal("dead_letter is the table itself; records that do not fit need another one")
        self._check_changes()
        self._check_values()
        self._check_partitioning()
        self._check_index()
        return self

    def _check_values(self) -> None:
        values = self.value_fields
        match self.format:
            case Format.RAW:
                for each in values:
                    if each.path or each.type not in _RAW_TYPES:
                        raise _refusal(
                            f"field {each.name}: a raw value is one string or binary, so it has no path and no other type"
                        )
            case Format.AVRO:
                assert self.avro is not None
                _check_avro(self.avro, values)
            case Format.PROTOBUF:
                assert self.protobuf is not None
                _check_protobuf(self.protobuf, values)

    def _check_partitioning(self) -> None:
        names = {each.name.lower() for each in self.fields}
        seen = set[tuple[str, str]]()
        for each in self.partitioning:
            field = self.field(each.field)
            if field is None:
                raise _refusal(f"partitioning by {each.by.value}: there is no field {each.field}")
            types = _TYPES_FOR.get(each.by)
            if types is not None and field.type not in types:
                raise _refusal(
                    f"partitioning by {each.by.value}: field {field.name} is a {field.type}, not a {' or a '.join(types)}"
                )
            if each.by is Transform.BUCKET and field.type in _NO_BUCKETS:
                raise _refusal(f"partitioning by bucket: field {field.name} is a {field.type}, which has no buckets")
            # Iceberg refuses a second partition by time of one column, and a partition named like a column.
            kind = "time" if each.by in _TIMES else each.by.value
            if (kind, each.field) in seen:
                raise _refusal(f"partitioning by {kind} of {each.field} is there more than once")
            seen.add((kind, each.field))
            if each.by is not Transform.IDENTITY and f"{each.field}_{each.by.value}".lower() in names:
                raise _refusal(
                    f"partitioning by {each.by.value} of {each.field} is called {each.field}_{each.by.value}, "
                    "and so is a field; rename that"
                )

    def _check_index(self) -> None:
        if self.index is None:
            return
        fault = layout_fault(self.index, {each.name: each.type for each in self.fields})
        if fault is None and any(each.by in _TIMES for each in self.partitioning):
            fault = "partitioning: an index is partitioned by its time already; index.every says how much"
        if fault is not None:
            raise _refusal(fault)

    def _check_changes(self) -> None:
        if self.changes is None:
            return
        fault = changes_fault(self.changes, {each.name: each.type for each in self.fields}, self.format.value)
        if fault is None and self.index is not None:
            fault = "index: it finds records, each of which is a row, so it has no changes"
        if fault is not None:
            raise _refusal(fault)


def _check_avro(avro: AvroFormat, fields: Sequence[TableField]) -> None:
    """Each field must exist in at least one schema, and fit wherever it exists."""
    wanted = avro.writer_schemas.items() if avro.writer_schemas else (("", avro.writer_schema),)
    schemas = {name: _avro_schema(name, schema) for name, schema in wanted}
    for each in fields:
        having = [name for name, schema in schemas.items() if schema.has(each.steps)] or list(schemas)[-1:]
        for name in having:
            try:
                schemas[name].fits(each.steps, each.type, each.unit)
            except SchemaRefused as error:
                raise _refusal(f"field {each.name}: {_schema_called(name)}: {error}") from None


def _avro_schema(name: str, schema: JsonValue) -> AvroSchema:
    try:
        return AvroSchema(schema)
    except SchemaRefused as error:
        raise _refusal(f"{_schema_called(name)}: {error}") from None


def _schema_called(name: str) -> str:
    return f"Avro schema {name}" if name else "the Avro schema"


def _check_protobuf(protobuf: ProtobufFormat, fields: Sequence[TableField]) -> None:
    # Imported late: only tables of this format need it.
    from bmq.table_definitions.protobuf_schema import ProtobufSchema

    try:
        schema = ProtobufSchema(protobuf.descriptor_bytes, protobuf.message)
    except SchemaRefused as error:
        raise _refusal(f"protobuf.descriptor_set: {error}") from None
    for each in fields:
        try:
            schema.fits(each.steps, each.type, each.unit)
        except SchemaRefused as error:
            raise _refusal(f"field {each.name}: message {protobuf.message}: {error}") from None


def sentence_of(errors: Sequence[ErrorDetails] | Sequence[Mapping[str, Any]]) -> str:
    """The first error of a validation, as one sentence: where, and what."""
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no key {place}"
    if first["type"] == "missing":
        return f"{place} is missing"
    if first["type"] == "json_invalid":
        return f"the definition is no JSON: {first['msg'].removeprefix('Invalid JSON: ')}"
    return f"{place}: {first['msg']}" if place else str(first["msg"])
