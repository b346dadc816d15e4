"""DescribeShareGroupOffsetsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeShareGroupOffsetsRequestTopic(Message):
    """A part of DescribeShareGroupOffsetsRequest."""

    topic_name: str
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeShareGroupOffsetsRequestGroup(Message):
    """A part of DescribeShareGroupOffsetsRequest."""

    group_id: str
    topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: Sequence[DescribeShareGroupOffsetsRequestTopic] | None = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeShareGroupOffsetsRequest(Message):
    """The message."""

    groups: Sequence[DescribeShareGroupOffsetsRequestGroup]

    def __init__(
        self,
        *,
        groups: Sequence[DescribeShareGroupOffsetsRequestGroup] = (),
    ) -> None:
        self.groups = groups


_DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC: Final = Format(
    DescribeShareGroupOffsetsRequestTopic,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
_DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_GROUP: Final = Format(
    DescribeShareGroupOffsetsRequestGroup,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string"),
        FormatField("topics", entity=_DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_TOPIC, is_array=True, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    DescribeShareGroupOffsetsRequest,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(FormatField("groups", entity=_DESCRIBE_SHARE_GROUP_OFFSETS_REQUEST_GROUP, is_array=True),),
)
