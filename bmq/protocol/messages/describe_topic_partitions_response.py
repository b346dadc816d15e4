"""DescribeTopicPartitionsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeTopicPartitionsResponsePartition(Message):
    """A part of DescribeTopicPartitionsResponse."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    eligible_leader_replicas: Sequence[int] | None
    last_known_elr: Sequence[int] | None
    offline_replicas: Sequence[int]

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        eligible_leader_replicas: Sequence[int] | None = None,
        last_known_elr: Sequence[int] | None = None,
        offline_replicas: Sequence[int] = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = offline_replicas


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeTopicPartitionsResponseTopic(Message):
    """A part of DescribeTopicPartitionsResponse."""

    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: Sequence[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = None,
        topic_id: UUID | None = None,
        is_internal: bool = False,
        partitions: Sequence[DescribeTopicPartitionsResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Cursor(Message):
    """A part of DescribeTopicPartitionsResponse."""

    topic_name: str
    partition_index: int

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeTopicPartitionsResponse(Message):
    """The message."""

    throttle_time_ms: int
    topics: Sequence[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: Sequence[DescribeTopicPartitionsResponseTopic] = (),
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = topics
        self.next_cursor = next_cursor


_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION: Final = Format(
    DescribeTopicPartitionsResponsePartition,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("partition_index", "int32"),
        FormatField("leader_id", "int32"),
        FormatField("leader_epoch", "int32"),
        FormatField("replica_nodes", "int32", is_array=True),
        FormatField("isr_nodes", "int32", is_array=True),
        FormatField("eligible_leader_replicas", "int32", is_array=True, nullable_since=0),
        FormatField("last_known_elr", "int32", is_array=True, nullable_since=0),
        FormatField("offline_replicas", "int32", is_array=True),
    ),
)
_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC: Final = Format(
    DescribeTopicPartitionsResponseTopic,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("name", "string", nullable_since=0),
        FormatField("topic_id", "uuid"),
        FormatField("is_internal", "bool"),
        FormatField("partitions", entity=_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_PARTITION, is_array=True),
        FormatField("topic_authorized_operations", "int32"),
    ),
)
_CURSOR: Final = Format(
    Cursor,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("partition_index", "int32"),
    ),
)
FORMAT: Final = Format(
    DescribeTopicPartitionsResponse,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("topics", entity=_DESCRIBE_TOPIC_PARTITIONS_RESPONSE_TOPIC, is_array=True),
        FormatField("next_cursor", entity=_CURSOR, nullable_since=0),
    ),
)
