"""OffsetFetchRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchRequestTopics(Message):
    """A part of OffsetFetchRequest."""

    topic_id: UUID | None
    partition_indexes: Sequence[int]
    name: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partition_indexes: Sequence[int] = (),
        name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partition_indexes = partition_indexes
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchRequestGroup(Message):
    """A part of OffsetFetchRequest."""

    group_id: str
    member_id: str | None
    member_epoch: int
    topics: Sequence[OffsetFetchRequestTopics] | None

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: Sequence[OffsetFetchRequestTopics] | None = (),
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = topics


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchRequestTopic(Message):
    """A part of OffsetFetchRequest."""

    name: str
    partition_indexes: Sequence[int]

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.partition_indexes = partition_indexes


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchRequest(Message):
    """The message."""

    groups: Sequence[OffsetFetchRequestGroup]
    require_stable: bool
    group_id: str
    topics: Sequence[OffsetFetchRequestTopic] | None

    def __init__(
        self,
        *,
        groups: Sequence[OffsetFetchRequestGroup] = (),
        require_stable: bool = False,
        group_id: str = "",
        topics: Sequence[OffsetFetchRequestTopic] | None = (),
    ) -> None:
        self.groups = groups
        self.require_stable = require_stable
        self.group_id = group_id
        self.topics = topics


_OFFSET_FETCH_REQUEST_TOPICS: Final = Format(
    OffsetFetchRequestTopics,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("topic_id", "uuid", since=10),
        FormatField("name", "string", since=8, until=9),
        FormatField("partition_indexes", "int32", since=8, is_array=True),
    ),
)
_OFFSET_FETCH_REQUEST_GROUP: Final = Format(
    OffsetFetchRequestGroup,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("group_id", "string", since=8),
        FormatField("member_id", "string", since=9, nullable_since=0),
        FormatField("member_epoch", "int32", since=9),
        FormatField("topics", since=8, entity=_OFFSET_FETCH_REQUEST_TOPICS, is_array=True, nullable_since=0),
    ),
)
_OFFSET_FETCH_REQUEST_TOPIC: Final = Format(
    OffsetFetchRequestTopic,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("name", "string", until=7),
        FormatField("partition_indexes", "int32", until=7, is_array=True),
    ),
)
FORMAT: Final = Format(
    OffsetFetchRequest,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("groups", since=8, entity=_OFFSET_FETCH_REQUEST_GROUP, is_array=True),
        FormatField("group_id", "string", until=7),
        FormatField("topics", since=2, until=7, entity=_OFFSET_FETCH_REQUEST_TOPIC, is_array=True, nullable_since=0),
        FormatField("require_stable", "bool", since=7),
        FormatField("topics", until=1, entity=_OFFSET_FETCH_REQUEST_TOPIC, is_array=True),
    ),
)
