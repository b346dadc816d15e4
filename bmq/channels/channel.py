"""A channel: what applications hand records to. It names a topic and says how an agent produces to it. Decisions only.

A channel is a value: it is checked as a whole when created, and its JSON form gives an equal one. Each refusal is one
sentence. docs/DATABUS.md describes the form for users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StrictBool,
    StrictFloat,
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

CHANNEL_NAME: Final = r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}"
RESERVED_NAMES: Final = frozenset({"agents", "changes"})
"""Names of pages of the REST API beside the channels."""
SCHEMA_BYTES_MAX: Final = 64 * 1024
CONSTANT_BYTES_MAX: Final = 1_024
STEPS_MAX: Final = 32
LINGER_MS_MAX: Final = 60_000
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
RECORD_BYTES_MAX: Final = 16 * 1024 * 1024
RATE_MAX: Final = 2**53
"""The largest whole number that every reader of JSON keeps exactly."""
_SHOWN_MAX: Final = 40


class InvalidChannel(BmqError):
    """The channel is invalid; the message says what is wrong, and where."""

    code = ErrorCode.INVALID_REQUEST


class KeyBy(StrEnum):
    """Where a record's key comes from.

    NONE: the key that the application gave, if any. HEADER: the value of the record's first header of that name, without
    one there is no key. JSON_PATH: the field of the value, which is JSON. CONSTANT: one key for the whole channel.
    """

    NONE = "none"
    HEADER = "header"
    JSON_PATH = "json_path"
    CONSTANT = "constant"


class Compression(StrEnum):
    """A codec of Kafka, by the name that `compression.type` has for it."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    """The producer's `acks`. Only with ALL does a record that was accepted land once."""

    ALL = "all"
    LEADER = "1"
    NONE = "0"


class SchemaCheck(StrEnum):
    """What a value must be. JSON: a JSON text. JSON_SCHEMA: one that is valid by the channel's `json_schema`.

    PROTOBUF: a message of the channel's `protobuf`, without fields that its schema does not know.
    """

    NONE = "none"
    JSON = "json"
    JSON_SCHEMA = "json_schema"
    PROTOBUF = "protobuf"


class SpoolFull(StrEnum):
    """What happens to records when the agent's spool is full."""

    REFUSE = "refuse"
    DROP_OLDEST = "drop_oldest"
    DROP_NEWEST = "drop_newest"


def _refusal(sentence: str) -> PydanticCustomError:
    return PydanticCustomError("channel", "{sentence}", {"sentence": sentence})


def _form(pattern: str, words: str) -> BeforeValidator:
    """Refuse a text that does not match the pattern, with these words."""

    def checked(text: object) -> object:
        if isinstance(text, str) and re.fullmatch(pattern, text) is None:
            raise _refusal(f"{text[:_SHOWN_MAX]!r} is no such name: {words}")
        return text

    return BeforeValidator(checked)


def _split(path: object) -> object:
    """A path may be a text with dots; a list allows names that contain dots."""
    return path.split(".") if isinstance(path, str) and path else path


def _acks_text(acks: object) -> object:
    """Kafka's clients write acks as a number, too; -1 means all."""
    if isinstance(acks, bool):
        return acks
    return {-1: "all", "-1": "all", 0: "0", 1: "1"}.get(acks, acks) if isinstance(acks, int | str) else acks


_CHANNEL_WORDS: Final = (
    "letters, digits, dots, underscores and hyphens, at most 100, beginning with a letter or a digit"
)
_TOPIC: Final = r"[a-zA-Z0-9._-]{1,249}"
_MESSAGE: Final = r"[A-Za-z_][A-Za-z0-9_]{0,127}(\.[A-Za-z_][A-Za-z0-9_]{0,127}){0,31}"
_TOPIC_WORDS: Final = "letters, digits, dots, underscores and hyphens, at most 249"

# The Field comes before the check: after it, the pattern would be missing in the JSON schema.
ChannelName = Annotated[
    str, Field(pattern=f"^{CHANNEL_NAME}$", description=_CHANNEL_WORDS), _form(CHANNEL_NAME, _CHANNEL_WORDS)
]
TopicText = Annotated[str, Field(pattern=f"^{_TOPIC}$"), _form(_TOPIC, _TOPIC_WORDS)]
Step = Annotated[str, StringConstraints(min_length=1, max_length=255)]
HeaderName = Annotated[str, StringConstraints(min_length=1, max_length=255)]
SchemaText = Annotated[str, StringConstraints(min_length=1, max_length=SCHEMA_BYTES_MAX)]
Rate = Annotated[StrictInt, Field(ge=1, le=RATE_MAX)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeyRule(_Part):
    """Where the key comes from. `header`, `path` and `constant` are given when `by` names them, and only then.

    `path`: the names that lead to the field within the value. `constant`: the key, in UTF-8.
    """

    by: KeyBy = KeyBy.NONE
    header: HeaderName | None = None
    path: Annotated[
        tuple[Step, ...],
        BeforeValidator(_split, json_schema_input_type=str | list[str]),
        Field(max_length=STEPS_MAX, description="A text with dots, or a list of names"),
    ] = ()
    constant: Annotated[str, StringConstraints(min_length=1, max_length=CONSTANT_BYTES_MAX)] | None = None

    @field_validator("constant")
    @classmethod
    def _is_short(cls, text: str | None) -> str | None:
        if text is not None and len(text.encode()) > CONSTANT_BYTES_MAX:
            raise _refusal(f"it has more than {CONSTANT_BYTES_MAX} bytes")
        return text

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        given = {
            KeyBy.HEADER: self.header is not None,
            KeyBy.JSON_PATH: bool(self.path),
            KeyBy.CONSTANT: self.constant is not None,
        }
        names = {KeyBy.HEADER: "header", KeyBy.JSON_PATH: "path", KeyBy.CONSTANT: "constant"}
        for by, is_given in given.items():
            if is_given and self.by is not by:
                raise _refusal(f"{names[by]} is given, but the key is by {self.by.value}; set by to {by.value}")
            if self.by is by and not is_given:
                raise _refusal(f"a key by {by.value} needs {names[by]}")
        return self


class ProtobufMessage(_Part):
    """`message`: its full name. `descriptor_set`: Base64 of what `protoc --include_imports --descriptor_set_out` writes."""

    message: Annotated[str, Field(pattern=f"^{_MESSAGE}$"), _form(_MESSAGE, "a message's full name is PACKAGE.MESSAGE")]
    descriptor_set: Annotated[SchemaText, IS_BASE64]


class Channel(_Part):
    """How an agent treats the records of one channel. Equal channels have equal JSON.

    `sampling_rate`: the share of records that is produced, 0 to 1; the others are accepted and counted as left out.
    Rate limits are those of one agent; None means no limit. `max_record_bytes` counts key, value and headers.
    `spool_full`: what happens when the cluster is away and the spool is full. An agent refuses records for a channel
    that is not enabled.
    """

    name: ChannelName
    topic: TopicText
    key: KeyRule = KeyRule()
    compression: Compression = Compression.LZ4
    linger_ms: Annotated[StrictInt, Field(ge=0, le=LINGER_MS_MAX)] = 100
    batch_bytes: Annotated[StrictInt, Field(ge=1_024, le=BATCH_BYTES_MAX)] = 1024 * 1024
    acks: Annotated[Acks, BeforeValidator(_acks_text)] = Acks.ALL
    sampling_rate: Annotated[StrictFloat, Field(ge=0.0, le=1.0, allow_inf_nan=False)] = 1.0
    rate_limit_records_per_s: Rate | None = None
    rate_limit_bytes_per_s: Rate | None = None
    max_record_bytes: Annotated[StrictInt, Field(ge=1, le=RECORD_BYTES_MAX)] = 1_000_000
    schema_check: SchemaCheck = SchemaCheck.NONE
    json_schema: Annotated[SchemaText | None, Field(description="The text of a JSON Schema")] = None
    protobuf: Annotated[ProtobufMessage | None, Field(description="The message that values are, with its schema")] = (
        None
    )
    spool_full: SpoolFull = SpoolFull.REFUSE
    enabled: StrictBool = True
    description: Annotated[str, StringConstraints(max_length=1_024)] = ""

    @field_validator("name")
    @classmethod
    def _is_free(cls, name: str) -> str:
        if name in RESERVED_NAMES:
            raise _refusal(f"{name} is a page of the REST API; choose another name")
        return name

    @field_validator("topic")
    @classmethod
    def _is_topic(cls, topic: str) -> str:
        if topic in (".", ".."):
            raise _refusal(f"{topic!r} is no topic's name")
        if topic.startswith("__"):
            raise _refusal(f"{topic} is an internal topic; applications do not write to it")
        return topic

    @field_validator("json_schema")
    @classmethod
    def _is_json(cls, text: str | None) -> str | None:
        if text is None:
            return None
        length = len(text.encode())
        if length > SCHEMA_BYTES_MAX:
            raise _refusal(f"the schema has {length} bytes, {SCHEMA_BYTES_MAX} are allowed")
        try:
            schema = json.loads(text)
        except RecursionError:
            raise _refusal("the schema is nested too deep") from None
        except ValueError as error:
            raise _refusal(f"the schema is no JSON: {error}") from None
        if not isinstance(schema, dict):
            raise _refusal("a JSON Schema is a JSON object")
        return text

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        if self.schema_check is SchemaCheck.JSON_SCHEMA and self.json_schema is None:
            raise _refusal("schema_check is json_schema, so json_schema must be given")
        if self.schema_check is not SchemaCheck.JSON_SCHEMA and self.json_schema is not None:
            raise _refusal("json_schema is given, but schema_check is not json_schema")
        if self.schema_check is SchemaCheck.PROTOBUF and self.protobuf is None:
            raise _refusal("schema_check is protobuf, so protobuf must be given")
        if self.schema_check is not SchemaCheck.PROTOBUF and self.protobuf is not None:
            raise _refusal("protobuf is given, but schema_check is not protobuf")
        return self

    @model_serializer(mode="wrap")
    def _form(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Earlier releases refuse a key that they do not know.
        form: dict[str, Any] = whole(self)
        if form.get("protobuf") is None:
            form.pop("protobuf", None)
        return form


def parse_channel(given: Mapping[str, object]) -> Channel:
    """The inverse of `channel_to_json`; keys that are left out have their defaults. Raises InvalidChannel."""
    try:
        return Channel.model_validate(given)
    except ValidationError as error:
        raise InvalidChannel(sentence_of(error.errors(include_url=False, include_context=False))) from None


def channel_to_json(channel: Channel) -> dict[str, Any]:
    """Every key, in the order of Channel, as values that `json.dumps` writes; `protobuf` only where it is given."""
    return channel.model_dump(mode="json")


def sentence_of(errors: Sequence[ErrorDetails] | Sequence[Mapping[str, Any]]) -> str:
    """The first error of a validation, as one sentence: where, and what."""
    first = errors[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"there is no key {place[:_SHOWN_MAX]}"
    if first["type"] == "missing":
        return f"{place} is missing"
    return f"{place}: {first['msg']}" if place else str(first["msg"])
