"""DescribeShareGroupOffsetsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeShareGroupOffsetsResponsePartition(Message):
    """A part of DescribeShareGroupOffsetsResponse."""

    partition_index: int
    start_offset: int
    leader_epoch: int
    lag: int
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.lag = lag
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeShareGroupOffsetsResponseTopic(Message):
    """A part of DescribeShareGroupOffsetsResponse."""

    topic_name: str
    topic_id: UUID | None
    partitions: Sequence[DescribeShareGroupOffsetsResponsePartition]

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: UUID | None = None,
        partitions: Sequence[DescribeShareGroupOffsetsResponsePartition] = (),
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeShareGroupOffsetsResponseGroup(Message):
    """A part of DescribeShareGroupOffsetsResponse."""

    group_id: str
    topics: Sequence[DescribeShareGroupOffsetsResponseTopic]
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: Sequence[DescribeShareGroupOffsetsResponseTopic] = (),
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeShareGroupOffsetsResponse(Message):
    """The message."""

    throttle_time_ms: int
    groups: Sequence[DescribeShareGroupOffsetsResponseGroup]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribeShareGroupOffsetsResponseGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION: Final = Format(
    DescribeShareGroupOffsetsResponsePartition,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("start_offset", "int64"),
        FormatField("leader_epoch", "int32"),
        FormatField("lag", "int64", since=1),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC: Final = Format(
    DescribeShareGroupOffsetsResponseTopic,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("topic_id", "uuid"),
        FormatField("partitions", entity=_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION, is_array=True),
    ),
)
_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_GROUP: Final = Format(
    DescribeShareGroupOffsetsResponseGroup,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string"),
        FormatField("topics", entity=_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC, is_array=True),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
FORMAT: Final = Format(
    DescribeShareGroupOffsetsResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("groups", entity=_DESCRIBE_SHARE_GROUP_OFFSETS_RESPONSE_GROUP, is_array=True),
    ),
)
