"""DescribeTopicPartitionsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


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
