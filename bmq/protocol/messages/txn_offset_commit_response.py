"""TxnOffsetCommitResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TxnOffsetCommitResponsePartition(Message):
    """A part of TxnOffsetCommitResponse."""

    partition_index: int
    error_code: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TxnOffsetCommitResponseTopic(Message):
    """A part of TxnOffsetCommitResponse."""

    topic_id: UUID | None
    partitions: Sequence[TxnOffsetCommitResponsePartition]
    name: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[TxnOffsetCommitResponsePartition] = (),
        name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TxnOffsetCommitResponse(Message):
    """The message."""

    throttle_time_ms: int
    topics: Sequence[TxnOffsetCommitResponseTopic]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[TxnOffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


_TXN_OFFSET_COMMIT_RESPONSE_PARTITION: Final = Format(
    TxnOffsetCommitResponsePartition,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
    ),
)
_TXN_OFFSET_COMMIT_RESPONSE_TOPIC: Final = Format(
    TxnOffsetCommitResponseTopic,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("topic_id", "uuid", since=6),
        FormatField("name", "string", until=5),
        FormatField("partitions", entity=_TXN_OFFSET_COMMIT_RESPONSE_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    TxnOffsetCommitResponse,
    version_min=0,
    version_max=6,
    flexible_from=3,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("topics", entity=_TXN_OFFSET_COMMIT_RESPONSE_TOPIC, is_array=True),
    ),
)
