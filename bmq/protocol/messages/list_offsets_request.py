"""ListOffsetsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsPartition:
    partition_index: int = 0
    current_leader_epoch: int = -1
    timestamp: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsTopic:
    name: str = ""
    partitions: Sequence[ListOffsetsPartition] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class ListOffsetsRequest:
    replica_id: int = 0
    isolation_level: int = 0
    topics: Sequence[ListOffsetsTopic] = ()
    timeout_ms: int = 0


_LIST_OFFSETS_PARTITION: Final = Format(
    ListOffsetsPartition,
    version_min=1,
    version_max=11,
    flexible_from=6,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("current_leader_epoch", "int32", since=4),
        FormatField("timestamp", "int64"),
    ),
)
_LIST_OFFSETS_TOPIC: Final = Format(
    ListOffsetsTopic,
    version_min=1,
    version_max=11,
    flexible_from=6,
    fields=(
        FormatField("name", "string"),
        FormatField("partitions", entity=_LIST_OFFSETS_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    ListOffsetsRequest,
    version_min=1,
    version_max=11,
    flexible_from=6,
    fields=(
        FormatField("replica_id", "int32"),
        FormatField("isolation_level", "int8", since=2),
        FormatField("topics", entity=_LIST_OFFSETS_TOPIC, is_array=True),
        FormatField("timeout_ms", "int32", since=10),
    ),
)
