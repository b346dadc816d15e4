"""OffsetForLeaderEpochResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class EpochEndOffset(Message):
    """A part of OffsetForLeaderEpochResponse."""

    error_code: int
    partition: int
    leader_epoch: int
    end_offset: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetForLeaderTopicResult(Message):
    """A part of OffsetForLeaderEpochResponse."""

    topic: str
    partitions: Sequence[EpochEndOffset]

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: Sequence[EpochEndOffset] = (),
    ) -> None:
        self.topic = topic
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetForLeaderEpochResponse(Message):
    """The message."""

    throttle_time_ms: int
    topics: Sequence[OffsetForLeaderTopicResult]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[OffsetForLeaderTopicResult] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics


_EPOCH_END_OFFSET: Final = Format(
    EpochEndOffset,
    version_min=2,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("partition", "int32"),
        FormatField("leader_epoch", "int32"),
        FormatField("end_offset", "int64"),
    ),
)
_OFFSET_FOR_LEADER_TOPIC_RESULT: Final = Format(
    OffsetForLeaderTopicResult,
    version_min=2,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("topic", "string"),
        FormatField("partitions", entity=_EPOCH_END_OFFSET, is_array=True),
    ),
)
FORMAT: Final = Format(
    OffsetForLeaderEpochResponse,
    version_min=2,
    version_max=4,
    flexible_from=4,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("topics", entity=_OFFSET_FOR_LEADER_TOPIC_RESULT, is_array=True),
    ),
)
