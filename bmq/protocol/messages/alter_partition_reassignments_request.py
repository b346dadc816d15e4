"""AlterPartitionReassignmentsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReassignablePartition(Message):
    """A part of AlterPartitionReassignmentsRequest."""

    partition_index: int
    replicas: Sequence[int] | None

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: Sequence[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReassignableTopic(Message):
    """A part of AlterPartitionReassignmentsRequest."""

    name: str
    partitions: Sequence[ReassignablePartition]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[ReassignablePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterPartitionReassignmentsRequest(Message):
    """The message."""

    timeout_ms: int
    allow_replication_factor_change: bool
    topics: Sequence[ReassignableTopic]

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: Sequence[ReassignableTopic] = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = topics


_REASSIGNABLE_PARTITION: Final = Format(
    ReassignablePartition,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("replicas", "int32", is_array=True, nullable_since=0),
    ),
)
_REASSIGNABLE_TOPIC: Final = Format(
    ReassignableTopic,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_REASSIGNABLE_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterPartitionReassignmentsRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("timeout_ms", "int32"),
        FormatField("allow_replication_factor_change", "bool", since=1),
        FormatField("topics", entity=_REASSIGNABLE_TOPIC, is_array=True),
    ),
)
