"""CreateTopicsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


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
