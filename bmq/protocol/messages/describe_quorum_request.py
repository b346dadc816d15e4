"""DescribeQuorumRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class PartitionData(Message):
    """A part of DescribeQuorumRequest."""

    partition_index: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicData(Message):
    """A part of DescribeQuorumRequest."""

    topic_name: str
    partitions: Sequence[PartitionData]

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeQuorumRequest(Message):
    """The message."""

    topics: Sequence[TopicData]

    def __init__(
        self,
        *,
        topics: Sequence[TopicData] = (),
    ) -> None:
        self.topics = topics


_PARTITION_DATA: Final = Format(
    PartitionData,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(FormatField("partition_index", "int32"),),
)
_TOPIC_DATA: Final = Format(
    TopicData,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("partitions", entity=_PARTITION_DATA, is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeQuorumRequest,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(FormatField("topics", entity=_TOPIC_DATA, is_array=True),),
)
