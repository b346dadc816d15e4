"""DescribeTopicPartitionsResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


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
