"""DescribeQuorumRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class PartitionData:
    partition_index: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicData:
    topic_name: str = ""
    partitions: Sequence[PartitionData] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeQuorumRequest:
    topics: Sequence[TopicData] = ()


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
