"""OffsetDeleteResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    partition_index: int = 0
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    name: str = ""
    partitions: Sequence[OffsetDeleteResponsePartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteResponse:
    error_code: int = 0
    throttle_time_ms: int = 0
    topics: Sequence[OffsetDeleteResponseTopic] = ()
