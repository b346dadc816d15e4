"""ConsumerGroupDescribeResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicPartitions:
    topic_id: UUID | None = None
    topic_name: str = ""
    partitions: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Assignment:
    topic_partitions: Sequence[TopicPartitions] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Member:
    member_id: str = ""
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: Sequence[str] = ()
    subscribed_topic_regex: str | None = None
    assignment: Assignment = dataclasses.field(default_factory=lambda: Assignment())
    target_assignment: Assignment = dataclasses.field(default_factory=lambda: Assignment())
    member_type: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribedGroup:
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: Sequence[Member] = ()
    authorized_operations: int = -2147483648


@dataclasses.dataclass(slots=True, kw_only=True)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = 0
    groups: Sequence[DescribedGroup] = ()


_TOPIC_PARTITIONS: Final = Format(
    TopicPartitions,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("topic_id", "uuid"),
        FormatField("topic_name", "string"),
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
_MEMBER: Final = Format(
    Member,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("member_id", "string"),
        FormatField("instance_id", "string", nullable_since=0),
        FormatField("rack_id", "string", nullable_since=0),
        FormatField("member_epoch", "int32"),
        FormatField("client_id", "string"),
        FormatField("client_host", "string"),
        FormatField("subscribed_topic_names", "string", is_array=True),
        FormatField("subscribed_topic_regex", "string", nullable_since=0),
        FormatField("assignment", entity=_ASSIGNMENT),
        FormatField("target_assignment", entity=_ASSIGNMENT),
        FormatField("member_type", "int8", since=1),
    ),
)
_DESCRIBED_GROUP: Final = Format(
    DescribedGroup,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("group_id", "string"),
        FormatField("group_state", "string"),
        FormatField("group_epoch", "int32"),
        FormatField("assignment_epoch", "int32"),
        FormatField("assignor_name", "string"),
        FormatField("members", entity=_MEMBER, is_array=True),
        FormatField("authorized_operations", "int32"),
    ),
)
FORMAT: Final = Format(
    ConsumerGroupDescribeResponse,
    version_min=0,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("groups", entity=_DESCRIBED_GROUP, is_array=True),
    ),
)
