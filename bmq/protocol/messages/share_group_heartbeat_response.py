"""ShareGroupHeartbeatResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicPartitions(Message):
    """A part of ShareGroupHeartbeatResponse."""

    topic_id: UUID | None
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Assignment(Message):
    """A part of ShareGroupHeartbeatResponse."""

    topic_partitions: Sequence[TopicPartitions]

    def __init__(
        self,
        *,
        topic_partitions: Sequence[TopicPartitions] = (),
    ) -> None:
        self.topic_partitions = topic_partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareGroupHeartbeatResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: Assignment | None

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.assignment = assignment


_TOPIC_PARTITIONS: Final = Format(
    TopicPartitions,
    version_min=1,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("topic_id", "uuid"),
        FormatField("partitions", "int32", is_array=True),
    ),
)
_ASSIGNMENT: Final = Format(
    Assignment,
    version_min=1,
    version_max=1,
    flexible_from=0,
    fields=(FormatField("topic_partitions", entity=_TOPIC_PARTITIONS, is_array=True),),
)
FORMAT: Final = Format(
    ShareGroupHeartbeatResponse,
    version_min=1,
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
