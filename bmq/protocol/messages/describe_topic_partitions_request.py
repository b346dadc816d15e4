"""DescribeTopicPartitionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicRequest(Message):
    """A part of DescribeTopicPartitionsRequest."""

    name: str

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Cursor(Message):
    """A part of DescribeTopicPartitionsRequest."""

    topic_name: str
    partition_index: int

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeTopicPartitionsRequest(Message):
    """The message."""

    topics: Sequence[TopicRequest]
    response_partition_limit: int
    cursor: Cursor | None

    def __init__(
        self,
        *,
        topics: Sequence[TopicRequest] = (),
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics = topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


_TOPIC_REQUEST: Final = Format(
    TopicRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("name", "string"),),
)
_CURSOR: Final = Format(
    Cursor,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("partition_index", "int32"),
    ),
)
FORMAT: Final = Format(
    DescribeTopicPartitionsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("topics", entity=_TOPIC_REQUEST, is_array=True),
        FormatField("response_partition_limit", "int32"),
        FormatField("cursor", entity=_CURSOR, nullable_since=0),
    ),
)
