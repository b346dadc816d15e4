"""AlterPartitionReassignmentsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ReassignablePartition:
    partition_index: int = 0
    replicas: Sequence[int] | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class ReassignableTopic:
    name: str = ""
    partitions: Sequence[ReassignablePartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: Sequence[ReassignableTopic] = ()


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
