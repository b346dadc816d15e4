"""OffsetCommitRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    committed_metadata: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    topic_id: UUID | None = None
    partitions: Sequence[OffsetCommitRequestPartition] = ()
    name: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetCommitRequest:
    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    topics: Sequence[OffsetCommitRequestTopic] = ()
    retention_time_ms: int = -1
