"""AlterShareGroupOffsetsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterShareGroupOffsetsResponsePartition(Message):
    """A part of AlterShareGroupOffsetsResponse."""

    partition_index: int
    error_code: int
    error_message: str | None

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterShareGroupOffsetsResponseTopic(Message):
    """A part of AlterShareGroupOffsetsResponse."""

    topic_name: str
    topic_id: UUID | None
    partitions: Sequence[AlterShareGroupOffsetsResponsePartition]

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: UUID | None = None,
        partitions: Sequence[AlterShareGroupOffsetsResponsePartition] = (),
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterShareGroupOffsetsResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: Sequence[AlterShareGroupOffsetsResponseTopic]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: Sequence[AlterShareGroupOffsetsResponseTopic] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = responses


_ALTER_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION: Final = Format(
    AlterShareGroupOffsetsResponsePartition,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
    ),
)
_ALTER_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC: Final = Format(
    AlterShareGroupOffsetsResponseTopic,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("topic_id", "uuid"),
        FormatField("partitions", entity=_ALTER_SHARE_GROUP_OFFSETS_RESPONSE_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterShareGroupOffsetsResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("responses", entity=_ALTER_SHARE_GROUP_OFFSETS_RESPONSE_TOPIC, is_array=True),
    ),
)
