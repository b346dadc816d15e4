"""CreateTopicsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatableReplicaAssignment(Message):
    """A part of CreateTopicsRequest."""

    partition_index: int
    broker_ids: Sequence[int]

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: Sequence[int] = (),
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = broker_ids


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatableTopicConfig(Message):
    """A part of CreateTopicsRequest."""

    name: str
    value: str | None

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = None,
    ) -> None:
        self.name = name
        self.value = value


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatableTopic(Message):
    """A part of CreateTopicsRequest."""

    name: str
    num_partitions: int
    replication_factor: int
    assignments: Sequence[CreatableReplicaAssignment]
    configs: Sequence[CreatableTopicConfig]

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: Sequence[CreatableReplicaAssignment] = (),
        configs: Sequence[CreatableTopicConfig] = (),
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = assignments
        self.configs = configs


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreateTopicsRequest(Message):
    """The message."""

    topics: Sequence[CreatableTopic]
    timeout_ms: int
    validate_only: bool

    def __init__(
        self,
        *,
        topics: Sequence[CreatableTopic] = (),
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


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
