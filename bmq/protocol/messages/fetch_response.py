"""FetchResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from uuid import UUID


@dataclasses.dataclass(slots=True, kw_only=True)
class EpochEndOffset:
    epoch: int = -1
    end_offset: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class LeaderIdAndEpoch:
    leader_id: int = -1
    leader_epoch: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class SnapshotId:
    end_offset: int = -1
    epoch: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class AbortedTransaction:
    producer_id: int = 0
    first_offset: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class PartitionData:
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset = dataclasses.field(default_factory=lambda: EpochEndOffset())
    current_leader: LeaderIdAndEpoch = dataclasses.field(default_factory=lambda: LeaderIdAndEpoch())
    snapshot_id: SnapshotId = dataclasses.field(default_factory=lambda: SnapshotId())
    aborted_transactions: Sequence[AbortedTransaction] | None = ()
    preferred_read_replica: int = -1
    records: bytes | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class FetchableTopicResponse:
    topic_id: UUID | None = None
    partitions: Sequence[PartitionData] = ()
    topic: str = ""


@dataclasses.dataclass(slots=True, kw_only=True)
class NodeEndpoint:
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class FetchResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: Sequence[FetchableTopicResponse] = ()
    node_endpoints: Sequence[NodeEndpoint] = ()
