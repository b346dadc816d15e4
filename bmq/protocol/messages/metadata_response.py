"""MetadataResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class MetadataResponseBroker:
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class MetadataResponsePartition:
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: Sequence[int] = ()
    isr_nodes: Sequence[int] = ()
    offline_replicas: Sequence[int] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class MetadataResponseTopic:
    error_code: int = 0
    name: str | None = None
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[MetadataResponsePartition] = ()
    topic_authorized_operations: int = -2147483648


@dataclasses.dataclass(slots=True, kw_only=True)
class MetadataResponse:
    throttle_time_ms: int = 0
    brokers: Sequence[MetadataResponseBroker] = ()
    cluster_id: str | None = None
    controller_id: int = -1
    topics: Sequence[MetadataResponseTopic] = ()
    error_code: int = 0
    cluster_authorized_operations: int = -2147483648
