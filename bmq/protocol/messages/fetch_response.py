"""FetchResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class EpochEndOffset(Message):
    """A part of FetchResponse."""

    epoch: int
    end_offset: int

    def __init__(
        self,
        *,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class LeaderIdAndEpoch(Message):
    """A part of FetchResponse."""

    leader_id: int
    leader_epoch: int

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class SnapshotId(Message):
    """A part of FetchResponse."""

    end_offset: int
    epoch: int

    def __init__(
        self,
        *,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AbortedTransaction(Message):
    """A part of FetchResponse."""

    producer_id: int
    first_offset: int

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class PartitionData(Message):
    """A part of FetchResponse."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: EpochEndOffset
    current_leader: LeaderIdAndEpoch
    snapshot_id: SnapshotId
    aborted_transactions: Sequence[AbortedTransaction] | None
    preferred_read_replica: int
    records: bytes | None

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: Sequence[AbortedTransaction] | None = (),
        preferred_read_replica: int = -1,
        records: bytes | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = EpochEndOffset() if diverging_epoch is None else diverging_epoch
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.snapshot_id = SnapshotId() if snapshot_id is None else snapshot_id
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FetchableTopicResponse(Message):
    """A part of FetchResponse."""

    topic_id: UUID | None
    partitions: Sequence[PartitionData]
    topic: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[PartitionData] = (),
        topic: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.topic = topic


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class NodeEndpoint(Message):
    """A part of FetchResponse."""

    node_id: int
    host: str
    port: int
    rack: str | None

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class FetchResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: Sequence[FetchableTopicResponse]
    node_endpoints: Sequence[NodeEndpoint]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: Sequence[FetchableTopicResponse] = (),
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = responses
        self.node_endpoints = node_endpoints


_EPOCH_END_OFFSET: Final = Format(
    EpochEndOffset,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("epoch", "int32", since=12),
        FormatField("end_offset", "int64", since=12),
    ),
)
_LEADER_ID_AND_EPOCH: Final = Format(
    LeaderIdAndEpoch,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("leader_id", "int32", since=12),
        FormatField("leader_epoch", "int32", since=12),
    ),
)
_SNAPSHOT_ID: Final = Format(
    SnapshotId,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("end_offset", "int64", since=12),
        FormatField("epoch", "int32", since=12),
    ),
)
_ABORTED_TRANSACTION: Final = Format(
    AbortedTransaction,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("producer_id", "int64"),
        FormatField("first_offset", "int64"),
    ),
)
_PARTITION_DATA: Final = Format(
    PartitionData,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("high_watermark", "int64"),
        FormatField("last_stable_offset", "int64"),
        FormatField("log_start_offset", "int64", since=5),
        FormatField("diverging_epoch", since=12, entity=_EPOCH_END_OFFSET, tag=0),
        FormatField("current_leader", since=12, entity=_LEADER_ID_AND_EPOCH, tag=1),
        FormatField("snapshot_id", since=12, entity=_SNAPSHOT_ID, tag=2),
        FormatField("aborted_transactions", entity=_ABORTED_TRANSACTION, is_array=True, nullable_since=0),
        FormatField("preferred_read_replica", "int32", since=11),
        FormatField("records", "records", nullable_since=0),
    ),
)
_FETCHABLE_TOPIC_RESPONSE: Final = Format(
    FetchableTopicResponse,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("topic_id", "uuid", since=13),
        FormatField("topic", "string", until=12),
        FormatField("partitions", entity=_PARTITION_DATA, is_array=True),
    ),
)
_NODE_ENDPOINT: Final = Format(
    NodeEndpoint,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("node_id", "int32", since=16),
        FormatField("host", "string", since=16),
        FormatField("port", "int32", since=16),
        FormatField("rack", "string", since=16, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    FetchResponse,
    version_min=4,
    version_max=18,
    flexible_from=12,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16", since=7),
        FormatField("session_id", "int32", since=7),
        FormatField("responses", entity=_FETCHABLE_TOPIC_RESPONSE, is_array=True),
        FormatField("node_endpoints", since=16, entity=_NODE_ENDPOINT, is_array=True, tag=0, default=()),
    ),
)
