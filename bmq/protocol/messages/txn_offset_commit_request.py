"""TxnOffsetCommitRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TxnOffsetCommitRequestPartition(Message):
    """A part of TxnOffsetCommitRequest."""

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
class TxnOffsetCommitRequestTopic(Message):
    """A part of TxnOffsetCommitRequest."""

    topic_id: UUID | None
    partitions: Sequence[TxnOffsetCommitRequestPartition]
    name: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[TxnOffsetCommitRequestPartition] = (),
        name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TxnOffsetCommitRequest(Message):
    """The message."""

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: Sequence[TxnOffsetCommitRequestTopic]

    def __init__(
        self,
        *,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: Sequence[TxnOffsetCommitRequestTopic] = (),
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = topics


_TXN_OFFSET_COMMIT_REQUEST_PARTITION: Final = Format(
    TxnOffsetCommitRequestPartition,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("committed_offset", "int64"),
        FormatField("committed_leader_epoch", "int32", since=2),
        FormatField("committed_metadata", "string", nullable_since=0),
    ),
)
_TXN_OFFSET_COMMIT_REQUEST_TOPIC: Final = Format(
    TxnOffsetCommitRequestTopic,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("topic_id", "uuid", since=6),
        FormatField("name", "string", until=5),
        FormatField("partitions", entity=_TXN_OFFSET_COMMIT_REQUEST_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    TxnOffsetCommitRequest,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("transactional_id", "string"),
        FormatField("group_id", "string"),
        FormatField("producer_id", "int64"),
        FormatField("producer_epoch", "int16"),
        FormatField("generation_id", "int32", since=3),
        FormatField("member_id", "string", since=3),
        FormatField("group_instance_id", "string", since=3, nullable_since=0),
        FormatField("topics", entity=_TXN_OFFSET_COMMIT_REQUEST_TOPIC, is_array=True),
    ),
)
