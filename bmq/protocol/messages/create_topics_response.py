"""CreateTopicsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatableTopicConfigs(Message):
    """A part of CreateTopicsResponse."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatableTopicResult(Message):
    """A part of CreateTopicsResponse."""

    name: str
    topic_id: UUID | None
    error_code: int
    error_message: str | None
    topic_config_error_code: int
    num_partitions: int
    replication_factor: int
    configs: Sequence[CreatableTopicConfigs] | None

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID | None = None,
        error_code: int = 0,
        error_message: str | None = None,
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: Sequence[CreatableTopicConfigs] | None = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = configs


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreateTopicsResponse(Message):
    """The message."""

    throttle_time_ms: int
    topics: Sequence[CreatableTopicResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[CreatableTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


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
