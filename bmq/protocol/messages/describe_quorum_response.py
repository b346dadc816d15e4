"""DescribeQuorumResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ReplicaState(Message):
    """A part of DescribeQuorumResponse."""

    replica_id: int
    replica_directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int

    def __init__(
        self,
        *,
        replica_id: int = 0,
        replica_directory_id: UUID | None = None,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class PartitionData(Message):
    """A part of DescribeQuorumResponse."""

    partition_index: int
    error_code: int
    error_message: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: Sequence[ReplicaState]
    observers: Sequence[ReplicaState]

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: Sequence[ReplicaState] = (),
        observers: Sequence[ReplicaState] = (),
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = current_voters
        self.observers = observers


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class TopicData(Message):
    """A part of DescribeQuorumResponse."""

    topic_name: str
    partitions: Sequence[PartitionData]

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: Sequence[PartitionData] = (),
    ) -> None:
        self.topic_name = topic_name
        self.partitions = partitions


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Listener(Message):
    """A part of DescribeQuorumResponse."""

    name: str
    host: str
    port: int

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class Node(Message):
    """A part of DescribeQuorumResponse."""

    node_id: int
    listeners: Sequence[Listener]

    def __init__(
        self,
        *,
        node_id: int = 0,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.node_id = node_id
        self.listeners = listeners


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeQuorumResponse(Message):
    """The message."""

    error_code: int
    error_message: str | None
    topics: Sequence[TopicData]
    nodes: Sequence[Node]

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        topics: Sequence[TopicData] = (),
        nodes: Sequence[Node] = (),
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = topics
        self.nodes = nodes


_REPLICA_STATE: Final = Format(
    ReplicaState,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("replica_id", "int32"),
        FormatField("replica_directory_id", "uuid", since=2),
        FormatField("log_end_offset", "int64"),
        FormatField("last_fetch_timestamp", "int64", since=1),
        FormatField("last_caught_up_timestamp", "int64", since=1),
    ),
)
_PARTITION_DATA: Final = Format(
    PartitionData,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("partition_index", "int32"),
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", since=2, nullable_since=0),
        FormatField("leader_id", "int32"),
        FormatField("leader_epoch", "int32"),
        FormatField("high_watermark", "int64"),
        FormatField("current_voters", entity=_REPLICA_STATE, is_array=True),
        FormatField("observers", entity=_REPLICA_STATE, is_array=True),
    ),
)
_TOPIC_DATA: Final = Format(
    TopicData,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("topic_name", "string"),
        FormatField("partitions", entity=_PARTITION_DATA, is_array=True),
    ),
)
_LISTENER: Final = Format(
    Listener,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("name", "string", since=2),
        FormatField("host", "string", since=2),
        FormatField("port", "uint16", since=2),
    ),
)
_NODE: Final = Format(
    Node,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("node_id", "int32", since=2),
        FormatField("listeners", since=2, entity=_LISTENER, is_array=True),
    ),
)
FORMAT: Final = Format(
    DescribeQuorumResponse,
    version_min=0,
    version_max=2,
    flexible_from=0,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("error_message", "string", since=2, nullable_since=0),
        FormatField("topics", entity=_TOPIC_DATA, is_array=True),
        FormatField("nodes", since=2, entity=_NODE, is_array=True),
    ),
)
