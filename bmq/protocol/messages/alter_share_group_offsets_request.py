"""AlterShareGroupOffsetsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterShareGroupOffsetsRequestPartition(Message):
    """A part of AlterShareGroupOffsetsRequest."""

    partition_index: int
    start_offset: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterShareGroupOffsetsRequestTopic(Message):
    """A part of AlterShareGroupOffsetsRequest."""

    topic_name: str
    partitions: Sequence[AlterShareGroupOffsetsRequestPartition]

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: Sequence[AlterShareGroupOffsetsRequestPartition] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterShareGroupOffsetsRequest(Message):
    """The message."""

    group_id: str
    topics: Sequence[AlterShareGroupOffsetsRequestTopic]

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: Sequence[AlterShareGroupOffsetsRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


_ALTER_SHARE_GROUP_OFFSETS_REQUEST_PARTITION: Final = Format(
    AlterShareGroupOffsetsRequestPartition,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("start_offset", "int64"),
    ),
)
_ALTER_SHARE_GROUP_OFFSETS_REQUEST_TOPIC: Final = Format(
    AlterShareGroupOffsetsRequestTopic,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("partitions", entity=_ALTER_SHARE_GROUP_OFFSETS_REQUEST_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    AlterShareGroupOffsetsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("group_id", "string"),
        FormatField("topics", entity=_ALTER_SHARE_GROUP_OFFSETS_REQUEST_TOPIC, is_array=True),
    ),
)
