"""ProduceResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class BatchIndexAndErrorMessage:
    batch_index: int = 0
    batch_index_error_message: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class LeaderIdAndEpoch:
    leader_id: int = -1
    leader_epoch: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class PartitionProduceResponse:
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[BatchIndexAndErrorMessage] = ()
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch = dataclasses.field(default_factory=lambda: LeaderIdAndEpoch())


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicProduceResponse:
    topic_id: UUID | None = None
    partition_responses: Sequence[PartitionProduceResponse] = ()
    name: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class NodeEndpoint:
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class ProduceResponse:
    responses: Sequence[TopicProduceResponse] = ()
    throttle_time_ms: int = 0
    node_endpoints: Sequence[NodeEndpoint] = ()
