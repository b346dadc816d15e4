"""ListOffsetsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListOffsetsPartition(Message):
    """A part of ListOffsetsRequest."""

    partition_index: int
    current_leader_epoch: int
    timestamp: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListOffsetsTopic(Message):
    """A part of ListOffsetsRequest."""

    name: str
    partitions: Sequence[ListOffsetsPartition]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[ListOffsetsPartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ListOffsetsRequest(Message):
    """The message."""

    replica_id: int
    isolation_level: int
    topics: Sequence[ListOffsetsTopic]
    timeout_ms: int

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: Sequence[ListOffsetsTopic] = (),
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = topics
        self.timeout_ms = timeout_ms


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
