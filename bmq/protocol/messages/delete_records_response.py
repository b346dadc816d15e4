"""DeleteRecordsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteRecordsTopicResult:
    name: str = ""
    partitions: Sequence[DeleteRecordsPartitionResult] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DeleteRecordsResponse:
    throttle_time_ms: int = 0
    topics: Sequence[DeleteRecordsTopicResult] = ()
