"""CreateTopicsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatableReplicaAssignment:
    partition_index: int = 0
    broker_ids: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatableTopicConfig:
    name: str = ""
    value: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class CreatableTopic:
    name: str = ""
    num_partitions: int = 0
    replication_factor: int = 0
    assignments: Sequence[CreatableReplicaAssignment] = ()
    configs: Sequence[CreatableTopicConfig] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class CreateTopicsRequest:
    topics: Sequence[CreatableTopic] = ()
    timeout_ms: int = 60000
    validate_only: bool = False


_CREATABLE_REPLICA_ASSIGNMENT: Final = Format(
    CreatableReplicaAssignment,
    version_min=2,
    version_max=7,
    flexible_from=5,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("broker_ids", "int32", is_array=True),
    ),
)
_CREATABLE_TOPIC_CONFIG: Final = Format(
    CreatableTopicConfig,
    version_min=2,
    version_max=7,
    flexible_from=5,
    fields=(
        FormatField("name", "string"),
        FormatField("value", "string", nullable_since=0),
    ),
)
_CREATABLE_TOPIC: Final = Format(
    CreatableTopic,
    version_min=2,
    version_max=7,
    flexible_from=5,
    fields=(
        FormatField("name", "string"),
        FormatField("num_partitions", "int32"),
        FormatField("replication_factor", "int16"),
        FormatField("assignments", entity=_CREATABLE_REPLICA_ASSIGNMENT, is_array=True),
        FormatField("configs", entity=_CREATABLE_TOPIC_CONFIG, is_array=True),
    ),
)
FORMAT: Final = Format(
    CreateTopicsRequest,
    version_min=2,
    version_max=7,
    flexible_from=5,
    fields=(
        FormatField("topics", entity=_CREATABLE_TOPIC, is_array=True),
        FormatField("timeout_ms", "int32"),
        FormatField("validate_only", "bool"),
    ),
)
