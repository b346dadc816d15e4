"""OffsetForLeaderEpochResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(slots=True, kw_only=True)
class EpochEndOffset:
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopicResult:
    topic: str = ""
    partitions: Sequence[EpochEndOffset] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()
