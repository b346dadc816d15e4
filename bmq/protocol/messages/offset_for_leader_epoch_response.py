"""OffsetForLeaderEpochResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class EpochEndOffset:
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopicResult:
    topic: str = ""
    partitions: Sequence[EpochEndOffset] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: int = 0
    topics: Sequence[OffsetForLeaderTopicResult] = ()


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
