"""ProduceResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class BatchIndexAndErrorMessage(Message):
    """A part of ProduceResponse."""

    batch_index: int
    batch_index_error_message: str | None

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class LeaderIdAndEpoch(Message):
    """A part of ProduceResponse."""

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
class PartitionProduceResponse(Message):
    """A part of ProduceResponse."""

    index: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: Sequence[BatchIndexAndErrorMessage]
    error_message: str | None
    current_leader: LeaderIdAndEpoch

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: Sequence[BatchIndexAndErrorMessage] = (),
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = record_errors
        self.error_message = error_message
        self.current_leader = LeaderIdAndEpoch() if current_leader is None else current_leader


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicProduceResponse(Message):
    """A part of ProduceResponse."""

    topic_id: UUID | None
    partition_responses: Sequence[PartitionProduceResponse]
    name: str

    def __init__(
        self,
        *,
        topic_id: UUID | None = None,
        partition_responses: Sequence[PartitionProduceResponse] = (),
        name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.partition_responses = partition_responses
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class NodeEndpoint(Message):
    """A part of ProduceResponse."""

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
class ProduceResponse(Message):
    """The message."""

    responses: Sequence[TopicProduceResponse]
    throttle_time_ms: int
    node_endpoints: Sequence[NodeEndpoint]

    def __init__(
        self,
        *,
        responses: Sequence[TopicProduceResponse] = (),
        throttle_time_ms: int = 0,
        node_endpoints: Sequence[NodeEndpoint] = (),
    ) -> None:
        self.responses = responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = node_endpoints


_BATCH_INDEX_AND_ERROR_MESSAGE: Final = Format(
    BatchIndexAndErrorMessage,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("batch_index", "int32", since=8),
        FormatField("batch_index_error_message", "string", since=8, nullable_since=0),
    ),
)
_LEADER_ID_AND_EPOCH: Final = Format(
    LeaderIdAndEpoch,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("leader_id", "int32", since=10),
        FormatField("leader_epoch", "int32", since=10),
    ),
)
_PARTITION_PRODUCE_RESPONSE: Final = Format(
    PartitionProduceResponse,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("base_offset", "int64"),
        FormatField("log_append_time_ms", "int64"),
        FormatField("log_start_offset", "int64", since=5),
        FormatField("record_errors", since=8, entity=_BATCH_INDEX_AND_ERROR_MESSAGE, is_array=True),
        FormatField("error_message", "string", since=8, nullable_since=0),
        FormatField("current_leader", since=10, entity=_LEADER_ID_AND_EPOCH, tag=0),
    ),
)
_TOPIC_PRODUCE_RESPONSE: Final = Format(
    TopicProduceResponse,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("topic_id", "uuid", since=13),
        FormatField("name", "string", until=12),
        FormatField("partition_responses", entity=_PARTITION_PRODUCE_RESPONSE, is_array=True),
    ),
)
_NODE_ENDPOINT: Final = Format(
    NodeEndpoint,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("node_id", "int32", since=10),
        FormatField("host", "string", since=10),
        FormatField("port", "int32", since=10),
        FormatField("rack", "string", since=10, nullable_since=0),
    ),
)
FORMAT: Final = Format(
    ProduceResponse,
    version_min=3,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("responses", entity=_TOPIC_PRODUCE_RESPONSE, is_array=True),
        FormatField("throttle_time_ms", "int32"),
        FormatField("node_endpoints", since=10, entity=_NODE_ENDPOINT, is_array=True, tag=0, default=()),
    ),
)
