"""ConsumerGroupHeartbeatResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicPartitions:
    topic_id: UUID | None = None
    partitions: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


_TOPIC_PARTITIONS: Final = Format(
    TopicPartitions,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("topic_id", "uuid"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
_ASSIGNMENT: Final = Format(
    Assignment,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(FormatField("topic_partitions", entity=_TOPIC_PARTITIONS, is_array=True),),
)
FORMAT: Final = Format(
    ConsumerGroupHeartbeatResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("member_id", "string", nullable_since=0),
        FormatField("member_epoch", "int32"),
        FormatField("heartbeat_interval_ms", "int32"),
        FormatField("assignment", entity=_ASSIGNMENT, nullable_since=0),
    ),
)
