"""OffsetFetchResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchResponsePartitions(Message):
    """A part of OffsetFetchResponse."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchResponseTopics(Message):
    """A part of OffsetFetchResponse."""

    topic_id: UUID | None
    partitions: Sequence[OffsetFetchResponsePartitions]
    name: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[OffsetFetchResponsePartitions] = (),
        name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchResponseGroup(Message):
    """A part of OffsetFetchResponse."""

    group_id: str
    topics: Sequence[OffsetFetchResponseTopics]
    error_code: int

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: Sequence[OffsetFetchResponseTopics] = (),
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.error_code = error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchResponsePartition(Message):
    """A part of OffsetFetchResponse."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = None,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchResponseTopic(Message):
    """A part of OffsetFetchResponse."""

    name: str
    partitions: Sequence[OffsetFetchResponsePartition]

    def __init__(
        self,
        *,
        name: str = "",
        partitions: Sequence[OffsetFetchResponsePartition] = (),
    ) -> None:
        self.name = name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class OffsetFetchResponse(Message):
    """The message."""

    throttle_time_ms: int
    groups: Sequence[OffsetFetchResponseGroup]
    topics: Sequence[OffsetFetchResponseTopic]
    error_code: int

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: Sequence[OffsetFetchResponseGroup] = (),
        topics: Sequence[OffsetFetchResponseTopic] = (),
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = groups
        self.topics = topics
        self.error_code = error_code


_OFFSET_FETCH_RESPONSE_PARTITIONS: Final = Format(
    OffsetFetchResponsePartitions,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("partition_index", "int32", since=8),
        FormatField("committed_offset", "int64", since=8),
        FormatField("committed_leader_epoch", "int32", since=8),
        FormatField("metadata", "string", since=8, nullable_since=0),
        FormatField("error_code", "int16", since=8),
    ),
)
_OFFSET_FETCH_RESPONSE_TOPICS: Final = Format(
    OffsetFetchResponseTopics,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("topic_id", "uuid", since=10),
        FormatField("name", "string", since=8, until=9),
        FormatField("partitions", since=8, entity=_OFFSET_FETCH_RESPONSE_PARTITIONS, is_array=True),
    ),
)
_OFFSET_FETCH_RESPONSE_GROUP: Final = Format(
    OffsetFetchResponseGroup,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("group_id", "string", since=8),
        FormatField("topics", since=8, entity=_OFFSET_FETCH_RESPONSE_TOPICS, is_array=True),
        FormatField("error_code", "int16", since=8),
    ),
)
_OFFSET_FETCH_RESPONSE_PARTITION: Final = Format(
    OffsetFetchResponsePartition,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("partition_index", "int32", until=7),
        FormatField("committed_offset", "int64", until=7),
        FormatField("committed_leader_epoch", "int32", since=5, until=7),
        FormatField("metadata", "string", until=7, nullable_since=0),
        FormatField("error_code", "int16", until=7),
    ),
)
_OFFSET_FETCH_RESPONSE_TOPIC: Final = Format(
    OffsetFetchResponseTopic,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("name", "string", until=7),
        FormatField("partitions", until=7, entity=_OFFSET_FETCH_RESPONSE_PARTITION, is_array=True),
    ),
)
FORMAT: Final = Format(
    OffsetFetchResponse,
    version_min=1,
    version_max=10,
    flexible_from=6,
    fields=(
        FormatField("throttle_time_ms", "int32", since=3),
        FormatField("groups", since=8, entity=_OFFSET_FETCH_RESPONSE_GROUP, is_array=True),
        FormatField("topics", until=7, entity=_OFFSET_FETCH_RESPONSE_TOPIC, is_array=True),
        FormatField("error_code", "int16", since=2, until=7),
    ),
)
