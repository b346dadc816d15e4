"""ShareGroupDescribeResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicPartitions(Message):
    """A part of ShareGroupDescribeResponse."""

    topic_id: UUID | None
    topic_name: str
    partitions: Sequence[int]

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        topic_name: str = "",
        partitions: Sequence[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Assignment(Message):
    """A part of ShareGroupDescribeResponse."""

    topic_partitions: Sequence[TopicPartitions]

    def __init__(
        self,
        *,
        topic_partitions: Sequence[TopicPartitions] = (),
    ) -> None:
        self.topic_partitions = topic_partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Member(Message):
    """A part of ShareGroupDescribeResponse."""

    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: Sequence[str]
    assignment: Assignment

    def __init__(
        self,
        *,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Sequence[str] = (),
        assignment: Assignment | None = None,
    ) -> None:
        self.member_id = member_id
        self.rack_id = rack_id
        self.member_epoch = member_epoch
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = subscribed_topic_names
        self.assignment = Assignment() if assignment is None else assignment


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribedGroup(Message):
    """A part of ShareGroupDescribeResponse."""

    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: Sequence[Member]
    authorized_operations: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: Sequence[Member] = (),
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.assignor_name = assignor_name
        self.members = members
        self.authorized_operations = authorized_operations


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareGroupDescribeResponse(Message):
    """The message."""

    throttle_time_ms: int
    groups: Sequence[DescribedGroup]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: Sequence[DescribedGroup] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups


_TOPIC_PARTITIONS: Final = Format(
    TopicPartitions,
    version_min=1,
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
    version_min=1,
    version_max=1,
    flexible_from=0,
    fields=(FormatField("topic_partitions", entity=_TOPIC_PARTITIONS, is_array=True),),
)
_MEMBER: Final = Format(
    Member,
    version_min=1,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("member_id", "string"),
        FormatField("rack_id", "string", nullable_since=0),
        FormatField("member_epoch", "int32"),
        FormatField("client_id", "string"),
        FormatField("client_host", "string"),
        FormatField("subscribed_topic_names", "string", is_array=True),
        FormatField("assignment", entity=_ASSIGNMENT),
    ),
)
_DESCRIBED_GROUP: Final = Format(
    DescribedGroup,
    version_min=1,
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
    ShareGroupDescribeResponse,
    version_min=1,
    version_max=1,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("groups", entity=_DESCRIBED_GROUP, is_array=True),
    ),
)
