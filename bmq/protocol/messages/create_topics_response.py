"""CreateTopicsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatableTopicConfigs:
    name: str = ""
    value: str | None = None
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatableTopicResult:
    name: str = ""
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = None
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Sequence[CreatableTopicConfigs] | None = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class CreateTopicsResponse:
    throttle_time_ms: int = 0
    topics: Sequence[CreatableTopicResult] = ()


_CREATABLE_TOPIC_CONFIGS: Final = Format(
    CreatableTopicConfigs,
    version_min=2,
    version_max=7,
    flexible_from=5,
    fields=(
        FormatField("name", "string", since=5),
        FormatField("value", "string", since=5, nullable_since=0),
        FormatField("read_only", "bool", since=5),
        FormatField("config_source", "int8", since=5),
        FormatField("is_sensitive", "bool", since=5),
    ),
)
_CREATABLE_TOPIC_RESULT: Final = Format(
    CreatableTopicResult,
    version_min=2,
    version_max=7,
    flexible_from=5,
    fields=(
        FormatField("name", "string"),
        FormatField("topic_id", "uuid", since=7),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("topic_config_error_code", "int16", since=5, tag=0, default=0),
        FormatField("num_partitions", "int32", since=5),
        FormatField("replication_factor", "int16", since=5),
        FormatField("configs", since=5, entity=_CREATABLE_TOPIC_CONFIGS, is_array=True, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    CreateTopicsResponse,
    version_min=2,
    version_max=7,
    flexible_from=5,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("topics", entity=_CREATABLE_TOPIC_RESULT, is_array=True),
    ),
)
