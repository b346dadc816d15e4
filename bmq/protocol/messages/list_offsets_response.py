"""ListOffsetsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListOffsetsPartitionResponse(Message):
    """A part of ListOffsetsResponse."""

    partition_index: int
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListOffsetsTopicResponse(Message):
    """A part of ListOffsetsResponse."""

    name: str
    partitions: Sequence[ListOffsetsPartitionResponse]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[ListOffsetsPartitionResponse] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListOffsetsResponse(Message):
    """The message."""

    throttle_time_ms: int
    topics: Sequence[ListOffsetsTopicResponse]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[ListOffsetsTopicResponse] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


_LIST_OFFSETS_PARTITION_RESPONSE: Final = Format(
    ListOffsetsPartitionResponse,
    version_min=1,
    version_max=11,
    flexible_from=6,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("timestamp", "int64"),
        FormatField("offset", "int64"),
        FormatField("leader_epoch", "int32", since=4),
    ),
)
_LIST_OFFSETS_TOPIC_RESPONSE: Final = Format(
    ListOffsetsTopicResponse,
    version_min=1,
    version_max=11,
    flexible_from=6,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_LIST_OFFSETS_PARTITION_RESPONSE, is_array=True),
    ),
)
FORMAT: Final = Format(
    ListOffsetsResponse,
    version_min=1,
    version_max=11,
    flexible_from=6,
    fields=(
        FormatField("throttle_time_ms", "int32", since=2),
        FormatField("topics", entity=_LIST_OFFSETS_TOPIC_RESPONSE, is_array=True),
    ),
)
