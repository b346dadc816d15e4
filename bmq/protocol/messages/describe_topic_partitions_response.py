"""DescribeTopicPartitionsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    eligible_leader_replicas: Sequence[int] | None = None
    last_known_elr: Sequence[int] | None = None
    offline_replicas: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    error_code: int = 0
    name: str | None = None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[DescribeTopicPartitionsResponsePartition] = ()
    topic_authorized_operations: int = -2147483648


@dataclasses.dataclass(slots=True, kw_only=True)
class Cursor:
    topic_name: str = ""
    partition_index: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: int = 0
    topics: Sequence[DescribeTopicPartitionsResponseTopic] = ()
    next_cursor: Cursor | None = None


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
