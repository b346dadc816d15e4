"""ListPartitionReassignmentsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListPartitionReassignmentsTopics(Message):
    """A part of ListPartitionReassignmentsRequest."""

    name: str
    partition_indexes: Sequence[int]

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListPartitionReassignmentsRequest(Message):
    """The message."""

    timeout_ms: int
    topics: Sequence[ListPartitionReassignmentsTopics] | None

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: Sequence[ListPartitionReassignmentsTopics] | None = (),
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


_LIST_PARTITION_REASSIGNMENTS_TOPICS: Final = Format(
    ListPartitionReassignmentsTopics,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("partition_indexes", "int32", is_array=True),
    ),
)
FORMAT: Final = Format(
    ListPartitionReassignmentsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("timeout_ms", "int32"),
        FormatField("topics", entity=_LIST_PARTITION_REASSIGNMENTS_TOPICS, is_array=True, nullable_since=0),
    ),
)
