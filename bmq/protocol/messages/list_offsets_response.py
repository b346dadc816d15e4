"""ListOffsetsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    name: str = ""
    partitions: Sequence[ListOffsetsPartitionResponse] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsResponse:
    throttle_time_ms: int = 0
    topics: Sequence[ListOffsetsTopicResponse] = ()


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
