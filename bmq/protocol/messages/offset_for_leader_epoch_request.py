"""OffsetForLeaderEpochRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetForLeaderPartition(Message):
    """A part of OffsetForLeaderEpochRequest."""

    partition: int
    current_leader_epoch: int
    leader_epoch: int

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetForLeaderTopic(Message):
    """A part of OffsetForLeaderEpochRequest."""

    topic: str
    partitions: Sequence[OffsetForLeaderPartition]

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: Sequence[OffsetForLeaderPartition] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetForLeaderEpochRequest(Message):
    """The message."""

    replica_id: int
    topics: Sequence[OffsetForLeaderTopic]

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: Sequence[OffsetForLeaderTopic] = (),
    ) -> None:
        self.replica_id = replica_id
        self.topics = topics


_OFFSET_FOR_LEADER_PARTITION: Final = Format(
    OffsetForLeaderPartition,
    version_min=2,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("partition", "int32"),
        FormatField("current_leader_epoch", "int32"),
        FormatField("leader_epoch", "int32"),
    ),
)
_OFFSET_FOR_LEADER_TOPIC: Final = Format(
    OffsetForLeaderTopic,
    version_min=2,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("topic", "string"),
        FormatField("partitions", entity=_OFFSET_FOR_LEADER_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    OffsetForLeaderEpochRequest,
    version_min=2,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("replica_id", "int32", since=3),
        FormatField("topics", entity=_OFFSET_FOR_LEADER_TOPIC, is_array=True),
    ),
)
