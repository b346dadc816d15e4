"""ListOffsetsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


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
