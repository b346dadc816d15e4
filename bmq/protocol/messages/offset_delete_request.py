"""OffsetDeleteRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import NEWEST, Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    partition_index: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    name: str = ""
    partitions: Sequence[OffsetDeleteRequestPartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetDeleteRequest:
    group_id: str = ""
    topics: Sequence[OffsetDeleteRequestTopic] = ()


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
