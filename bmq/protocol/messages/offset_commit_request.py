"""OffsetCommitRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetCommitRequestPartition(Message):
    """A part of OffsetCommitRequest."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetCommitRequestTopic(Message):
    """A part of OffsetCommitRequest."""

    topic_id: UUID | None
    partitions: Sequence[OffsetCommitRequestPartition]
    name: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[OffsetCommitRequestPartition] = (),
        name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetCommitRequest(Message):
    """The message."""

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    topics: Sequence[OffsetCommitRequestTopic]
    retention_time_ms: int

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: Sequence[OffsetCommitRequestTopic] = (),
        retention_time_ms: int = -1,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = topics
        self.retention_time_ms = retention_time_ms


_OFFSET_COMMIT_REQUEST_PARTITION: Final = Format(
    OffsetCommitRequestPartition,
    version_min=2,
    version_max=10,
    flexible_from=8,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("committed_offset", "int64"),
        FormatField("committed_leader_epoch", "int32", since=6),
        FormatField("committed_metadata", "string", nullable_since=0),
    ),
)
_OFFSET_COMMIT_REQUEST_TOPIC: Final = Format(
    OffsetCommitRequestTopic,
    version_min=2,
    version_max=10,
    flexible_from=8,
    fields=(
        FormatField("topic_id", "uuid", since=10),
        FormatField("name", "string", until=9),
        FormatField("partitions", entity=_OFFSET_COMMIT_REQUEST_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    OffsetCommitRequest,
    version_min=2,
    version_max=10,
    flexible_from=8,
    fields=(
        FormatField("group_id", "string"),
        FormatField("generation_id_or_member_epoch", "int32"),
        FormatField("member_id", "string"),
        FormatField("group_instance_id", "string", since=7, nullable_since=0),
        FormatField("retention_time_ms", "int64", until=4),
        FormatField("topics", entity=_OFFSET_COMMIT_REQUEST_TOPIC, is_array=True),
    ),
)
