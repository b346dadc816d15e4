"""DescribeQuorumResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField


@dataclasses.dataclass(slots=True, kw_only=True)
class ReplicaState:
    replica_id: int = 0
    replica_directory_id: UUID | None = None
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1


@dataclasses.dataclass(slots=True, kw_only=True)
class PartitionData:
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class TopicData:
    topic_name: str = ""
    partitions: Sequence[PartitionData] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class Listener:
    name: str = ""
    host: str = ""
    port: int = 0


@dataclasses.dataclass(slots=True, kw_only=True)
class Node:
    node_id: int = 0
    listeners: Sequence[Listener] = ()


@dataclasses.dataclass(slots=True, kw_only=True)
class DescribeQuorumResponse:
    error_code: int = 0
    error_message: str | None = None
    topics: Sequence[TopicData] = ()
    nodes: Sequence[Node] = ()


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
