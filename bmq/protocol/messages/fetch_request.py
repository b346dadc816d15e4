"""FetchRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class ReplicaState:
    replica_id: int = -1
    replica_epoch: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class FetchPartition:
    partition: int = 0
    current_leader_epoch: int = -1
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: UUID | None = None
    high_watermark: int = 9223372036854775807


@dataclasses.dataclass(slots=True, kw_only=True)
class FetchTopic:
    topic_id: UUID | None = None
    partitions: Sequence[FetchPartition] = ()
    topic: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class ForgottenTopic:
    topic_id: UUID | None = None
    partitions: Sequence[int] = ()
    topic: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class FetchRequest:
    cluster_id: str | None = None
    replica_state: ReplicaState = dataclasses.field(default_factory=lambda: ReplicaState())
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0
    session_epoch: int = -1
    topics: Sequence[FetchTopic] = ()
    forgotten_topics_data: Sequence[ForgottenTopic] = ()
    rack_id: str = ""
    replica_id: int = -1
