"""ShareFetchResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class LeaderIdAndEpoch(Message):
    """A part of ShareFetchResponse."""

    leader_id: int
    leader_epoch: int

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AcquiredRecords(Message):
    """A part of ShareFetchResponse."""

    first_offset: int
    last_offset: int
    delivery_count: int

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class PartitionData(Message):
    """A part of ShareFetchResponse."""

    partition_index: int
    error_code: int
    error_message: str | None
    acknowledge_error_code: int
    acknowledge_error_message: str | None
    current_leader: LeaderIdAndEpoch
    records: bytes
    acquired_records: Sequence[AcquiredRecords]

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        records: bytes = b"",
        acquired_records: Sequence[AcquiredRecords] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader
        self.records = records
        self.acquired_records = acquired_records


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ShareFetchableTopicResponse(Message):
    """A part of ShareFetchResponse."""

    topic_id: UUID | None
    partitions: Sequence[PartitionData]

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class NodeEndpoint(Message):
    """A part of ShareFetchResponse."""

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
class ShareFetchResponse(Message):
    """The message."""

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: Sequence[ShareFetchableTopicResponse]
    node_endpoints: Sequence[NodeEndpoint]

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: Sequence[ShareFetchableTopicResponse] = (),
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = responses
        self.node_endpoints = node_endpoints


_LEADER_ID_AND_EPOCH: Final = Format(
    LeaderIdAndEpoch,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("leader_id", "int32"),
        FormatField("leader_epoch", "int32"),
    ),
)
_ACQUIRED_RECORDS: Final = Format(
    AcquiredRecords,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("first_offset", "int64"),
        FormatField("last_offset", "int64"),
        FormatField("delivery_count", "int16"),
    ),
)
_PARTITION_DATA: Final = Format(
    PartitionData,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("acknowledge_error_code", "int16"),
        FormatField("acknowledge_error_message", "string", nullable_since=0),
        FormatField("current_leader", entity=_LEADER_ID_AND_EPOCH),
        FormatField("records", "records"),
        FormatField("acquired_records", entity=_ACQUIRED_RECORDS, is_array=True),
    ),
)
_SHARE_FETCHABLE_TOPIC_RESPONSE: Final = Format(
    ShareFetchableTopicResponse,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("topic_id", "uuid"),
        FormatField("partitions", entity=_PARTITION_DATA, is_array=True),
    ),
)
_NODE_ENDPOINT: Final = Format(
    NodeEndpoint,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("node_id", "int32"),
        FormatField("host", "string"),
        FormatField("port", "int32"),
        FormatField("rack", "string", nullable_since=0),
    ),
)
FORMAT: Final = Format(
    ShareFetchResponse,
    version_min=1,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("throttle_time_ms", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", nullable_since=0),
        FormatField("acquisition_lock_timeout_ms", "int32"),
        FormatField("responses", entity=_SHARE_FETCHABLE_TOPIC_RESPONSE, is_array=True),
        FormatField("node_endpoints", entity=_NODE_ENDPOINT, is_array=True),
    ),
)
