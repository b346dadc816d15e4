"""ShareAcknowledgeRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AcknowledgementBatch(Message):
    """A part of ShareAcknowledgeRequest."""

    first_offset: int
    last_offset: int
    acknowledge_types: Sequence[int]

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: Sequence[int] = (),
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = acknowledge_types


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AcknowledgePartition(Message):
    """A part of ShareAcknowledgeRequest."""

    partition_index: int
    acknowledgement_batches: Sequence[AcknowledgementBatch]

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: Sequence[AcknowledgementBatch] = (),
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = acknowledgement_batches


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AcknowledgeTopic(Message):
    """A part of ShareAcknowledgeRequest."""

    topic_id: UUID | None
    partitions: Sequence[AcknowledgePartition]

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[AcknowledgePartition] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareAcknowledgeRequest(Message):
    """The message."""

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: Sequence[AcknowledgeTopic]

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = None,
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: Sequence[AcknowledgeTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.is_renew_ack = is_renew_ack
        self.topics = topics


_ACKNOWLEDGEMENT_BATCH: Final = Format(
    AcknowledgementBatch,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("first_offset", "int64"),
        FormatField("last_offset", "int64"),
        FormatField("acknowledge_types", "int8", is_array=True),
    ),
)
_ACKNOWLEDGE_PARTITION: Final = Format(
    AcknowledgePartition,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("acknowledgement_batches", entity=_ACKNOWLEDGEMENT_BATCH, is_array=True),
    ),
)
_ACKNOWLEDGE_TOPIC: Final = Format(
    AcknowledgeTopic,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("topic_id", "uuid"),
        FormatField("partitions", entity=_ACKNOWLEDGE_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    ShareAcknowledgeRequest,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string", nullable_since=0),
        FormatField("member_id", "string", nullable_since=0),
        FormatField("share_session_epoch", "int32"),
        FormatField("is_renew_ack", "bool", since=2),
        FormatField("topics", entity=_ACKNOWLEDGE_TOPIC, is_array=True),
    ),
)
