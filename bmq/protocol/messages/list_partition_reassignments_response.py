"""ListPartitionReassignmentsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class OngoingPartitionReassignment:
    partition_index: int = 0
    replicas: Sequence[int] = ()
    adding_replicas: Sequence[int] = ()
    removing_replicas: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OngoingTopicReassignment:
    name: str = ""
    partitions: Sequence[OngoingPartitionReassignment] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    topics: Sequence[OngoingTopicReassignment] = ()


_ONGOING_PARTITION_REASSIGNMENT: Final = Format(
    OngoingPartitionReassignment,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("replicas", "int32", is_array=True),
        FormatField("adding_replicas", "int32", is_array=True),
        FormatField("removing_replicas", "int32", is_array=True),
    ),
)
_ONGOING_TOPIC_REASSIGNMENT: Final = Format(
    OngoingTopicReassignment,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_ONGOING_PARTITION_REASSIGNMENT, is_array=True),
    ),
)
FORMAT: Final = Format(
    ListPartitionReassignmentsResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("topics", entity=_ONGOING_TOPIC_REASSIGNMENT, is_array=True),
    ),
)
