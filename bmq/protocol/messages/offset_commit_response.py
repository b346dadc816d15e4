"""OffsetCommitResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    partition_index: int = 0
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    topic_id: UUID | None = None
    partitions: Sequence[OffsetCommitResponsePartition] = ()
    name: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetCommitResponse:
    throttle_time_ms: int = 0
    topics: Sequence[OffsetCommitResponseTopic] = ()
