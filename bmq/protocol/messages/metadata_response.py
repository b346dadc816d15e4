"""MetadataResponse: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class MetadataResponseBroker(Message):
    """A part of MetadataResponse."""

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
class MetadataResponsePartition(Message):
    """A part of MetadataResponse."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    offline_replicas: Sequence[int]

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: Sequence[int] = (),
        isr_nodes: Sequence[int] = (),
        offline_replicas: Sequence[int] = (),
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = replica_nodes
        self.isr_nodes = isr_nodes
        self.offline_replicas = offline_replicas


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class MetadataResponseTopic(Message):
    """A part of MetadataResponse."""

    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: Sequence[MetadataResponsePartition]
    topic_authorized_operations: int

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = None,
        topic_id: UUID | None = None,
        is_internal: bool = False,
        partitions: Sequence[MetadataResponsePartition] = (),
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = partitions
        self.topic_authorized_operations = topic_authorized_operations


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class MetadataResponse(Message):
    """The message."""

    throttle_time_ms: int
    brokers: Sequence[MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: Sequence[MetadataResponseTopic]
    error_code: int
    cluster_authorized_operations: int

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        brokers: Sequence[MetadataResponseBroker] = (),
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: Sequence[MetadataResponseTopic] = (),
        error_code: int = 0,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = topics
        self.error_code = error_code
        self.cluster_authorized_operations = cluster_authorized_operations


_METADATA_RESPONSE_BROKER: Final = Format(
    MetadataResponseBroker,
    version_min=0,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("node_id", "int32"),
        FormatField("host", "string"),
        FormatField("port", "int32"),
        FormatField("rack", "string", since=1, nullable_since=0),
    ),
)
_METADATA_RESPONSE_PARTITION: Final = Format(
    MetadataResponsePartition,
    version_min=0,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("partition_index", "int32"),
        FormatField("leader_id", "int32"),
        FormatField("leader_epoch", "int32", since=7),
        FormatField("replica_nodes", "int32", is_array=True),
        FormatField("isr_nodes", "int32", is_array=True),
        FormatField("offline_replicas", "int32", since=5, is_array=True),
    ),
)
_METADATA_RESPONSE_TOPIC: Final = Format(
    MetadataResponseTopic,
    version_min=0,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("error_code", "int16"),
        FormatField("name", "string", since=12, nullable_since=0),
        FormatField("name", "string", until=11),
        FormatField("topic_id", "uuid", since=10),
        FormatField("is_internal", "bool", since=1),
        FormatField("partitions", entity=_METADATA_RESPONSE_PARTITION, is_array=True),
        FormatField("topic_authorized_operations", "int32", since=8),
    ),
)
FORMAT: Final = Format(
    MetadataResponse,
    version_min=0,
    version_max=13,
    flexible_from=9,
    fields=(
        FormatField("throttle_time_ms", "int32", since=3),
        FormatField("brokers", entity=_METADATA_RESPONSE_BROKER, is_array=True),
        FormatField("cluster_id", "string", since=2, nullable_since=0),
        FormatField("controller_id", "int32", since=1),
        FormatField("topics", entity=_METADATA_RESPONSE_TOPIC, is_array=True),
        FormatField("error_code", "int16", since=13),
        FormatField("cluster_authorized_operations", "int32", since=8, until=10),
    ),
)
