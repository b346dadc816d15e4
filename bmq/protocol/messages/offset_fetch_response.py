"""OffsetFetchResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartitions:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopics:
    topic_id: UUID | None = None
    partitions: Sequence[OffsetFetchResponsePartitions] = ()
    name: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    group_id: str = ""
    topics: Sequence[OffsetFetchResponseTopics] = ()
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = None
    error_code: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetFetchResponse:
    throttle_time_ms: int = 0
    groups: Sequence[OffsetFetchResponseGroup] = ()
    topics: Sequence[OffsetFetchResponseTopic] = ()
    error_code: int = 0
