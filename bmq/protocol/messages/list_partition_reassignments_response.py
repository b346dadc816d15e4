"""ListPartitionReassignmentsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OngoingPartitionReassignment(Message):
    """A part of ListPartitionReassignmentsResponse."""

    partition_index: int
    replicas: Sequence[int]
    adding_replicas: Sequence[int]
    removing_replicas: Sequence[int]

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: Sequence[int] = (),
        adding_replicas: Sequence[int] = (),
        removing_replicas: Sequence[int] = (),
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas
        self.adding_replicas = adding_replicas
        self.removing_replicas = removing_replicas


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OngoingTopicReassignment(Message):
    """A part of ListPartitionReassignmentsResponse."""

    name: str
    partitions: Sequence[OngoingPartitionReassignment]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[OngoingPartitionReassignment] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListPartitionReassignmentsResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    topics: Sequence[OngoingTopicReassignment]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        topics: Sequence[OngoingTopicReassignment] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics


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
