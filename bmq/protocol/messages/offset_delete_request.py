"""OffsetDeleteRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import NEWEST, Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetDeleteRequestPartition(Message):
    """A part of OffsetDeleteRequest."""

    partition_index: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetDeleteRequestTopic(Message):
    """A part of OffsetDeleteRequest."""

    name: str
    partitions: Sequence[OffsetDeleteRequestPartition]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[OffsetDeleteRequestPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetDeleteRequest(Message):
    """The message."""

    group_id: str
    topics: Sequence[OffsetDeleteRequestTopic]

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: Sequence[OffsetDeleteRequestTopic] = (),
    ) -> None:
        self.group_id = group_id
        self.topics = topics


_OFFSET_DELETE_REQUEST_PARTITION: Final = Format(
    OffsetDeleteRequestPartition,
    version_min=0,
    version_max=0,
    flexible_from=NEWEST,
    fields=(FormatField("partition_index", "int32"),),
)
_OFFSET_DELETE_REQUEST_TOPIC: Final = Format(
    OffsetDeleteRequestTopic,
    version_min=0,
    version_max=0,
    flexible_from=NEWEST,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_OFFSET_DELETE_REQUEST_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    OffsetDeleteRequest,
    version_min=0,
    version_max=0,
    flexible_from=NEWEST,
    fields=(
        FormatField("group_id", "string"),
        FormatField("topics", entity=_OFFSET_DELETE_REQUEST_TOPIC, is_array=True),
    ),
)
