"""OffsetCommitResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetCommitResponsePartition(Message):
    """A part of OffsetCommitResponse."""

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
class OffsetCommitResponseTopic(Message):
    """A part of OffsetCommitResponse."""

    topic_id: UUID | None
    partitions: Sequence[OffsetCommitResponsePartition]
    name: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[OffsetCommitResponsePartition] = (),
        name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetCommitResponse(Message):
    """The message."""

    throttle_time_ms: int
    topics: Sequence[OffsetCommitResponseTopic]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetCommitResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


_OFFSET_COMMIT_RESPONSE_PARTITION: Final = Format(
    OffsetCommitResponsePartition,
    version_min=2,
    version_max=10,
    flexible_from=8,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
    ),
)
_OFFSET_COMMIT_RESPONSE_TOPIC: Final = Format(
    OffsetCommitResponseTopic,
    version_min=2,
    version_max=10,
    flexible_from=8,
    fields=(
        FormatField("topic_id", "uuid", since=10),
        FormatField("name", "string", until=9),
        FormatField("partitions", entity=_OFFSET_COMMIT_RESPONSE_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    OffsetCommitResponse,
    version_min=2,
    version_max=10,
    flexible_from=8,
    fields=(
        FormatField("throttle_time_ms", "int32", since=3),
        FormatField("topics", entity=_OFFSET_COMMIT_RESPONSE_TOPIC, is_array=True),
    ),
)
