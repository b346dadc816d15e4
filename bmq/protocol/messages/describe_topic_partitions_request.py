"""DescribeTopicPartitionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicRequest:
    name: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class Cursor:
    topic_name: str = ""
    partition_index: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsRequest:
    topics: Sequence[TopicRequest] = ()
    response_partition_limit: int = 2000
    cursor: Cursor | None = None


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
