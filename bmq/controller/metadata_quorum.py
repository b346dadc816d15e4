"""DescribeQuorum: the metadata log, its owner, and how far the nodes follow it (KIP-595, KIP-836). Pure.

There is no quorum: the log is in the store, its one owner is the active controller, and any node with that role may be
the next. So these nodes are shown as voters, with the owner as their leader, and all other nodes as observers. A node's
end offset is the one it last asked to continue from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bmq.metadata.image import METADATA_TOPIC_NAME, ROLE_CONTROLLER, MetadataImage
from bmq.metadata.image import Node as ClusterNode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_quorum_request import DescribeQuorumRequest
from bmq.protocol.messages.describe_quorum_request import PartitionData as WantedPartition
from bmq.protocol.messages.describe_quorum_response import (
    DescribeQuorumResponse,
    Listener,
    Node,
    PartitionData,
    ReplicaState,
    TopicData,
)

_MESSAGES_FROM_VERSION: Final = 2
_UNKNOWN_PARTITION: Final = "This server does not host this topic-partition."
_UNKNOWN: Final = -1


class Follower(NamedTuple):
    """`end_offset`: the offset after the last record a node has. Times are milliseconds since 1970; -1: never."""

    end_offset: int = _UNKNOWN
    fetched_ms: int = _UNKNOWN
    caught_up_ms: int = _UNKNOWN


class MetadataFollowers:
    """How far each node follows the metadata log, by node id. Kept by the active controller while it is active."""

    def __init__(self) -> None:
        self._followers: dict[int, Follower] = {}

    def fetched(self, node_id: int, offset: int, log_end_offset: int, now_ms: int) -> None:
        """A registered node asked for records from `offset` on."""
        before = self._followers.get(node_id, Follower())
        caught_up_ms = now_ms if offset >= log_end_offset else before.caught_up_ms
        self._followers[node_id] = Follower(offset, now_ms, caught_up_ms)

    def of(self, node_id: int) -> Follower:
        """The node's progress; all values unknown if it has not asked yet."""
        return self._followers.get(node_id, Follower())


class MetadataLogState(NamedTuple):
    """The metadata log at its owner, now."""

    leader_epoch: int
    high_watermark: int
    end_offset: int
    now_ms: int


def describe_quorum(
    image: MetadataImage,
    log: MetadataLogState,
    followers: MetadataFollowers,
    request: DescribeQuorumRequest,
    api_version: int,
) -> DescribeQuorumResponse:
    """Only partition 0 of the metadata log is known; anything else is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka.

    The nodes are told with the metadata log's own state alone.
    """
    nodes: Mapping[int, ClusterNode] = image.nodes
    voters = [node for node in nodes.values() if ROLE_CONTROLLER in node.roles or node.node_id == image.controller_id]
    observers = [node for node in nodes.values() if node not in voters]

    def state(node: ClusterNode) -> ReplicaState:
        follower = followers.of(node.node_id)
        if node.node_id == image.controller_id:
            follower = Follower(log.end_offset, log.now_ms, log.now_ms)
        return ReplicaState(
            replica_id=node.node_id,
            log_end_offset=follower.end_offset,
            last_fetch_timestamp=follower.fetched_ms,
            last_caught_up_timestamp=follower.caught_up_ms,
        )

    def answer(topic: str, wanted: WantedPartition) -> PartitionData:
        if topic != METADATA_TOPIC_NAME or wanted.partition_index != 0:
            return PartitionData(
                partition_index=wanted.partition_index,
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                error_message=_UNKNOWN_PARTITION,
            )
        return PartitionData(
            partition_index=0,
            leader_id=image.controller_id,
            leader_epoch=log.leader_epoch,
            high_watermark=log.high_watermark,
            error_message="",
            current_voters=[state(node) for node in voters],
            observers=[state(node) for node in observers],
        )

    is_known = [(topic.topic_name, [one.partition_index for one in topic.partitions]) for topic in request.topics] == [
        (METADATA_TOPIC_NAME, [0])
    ]
    return DescribeQuorumResponse(
        error_message="",
        topics=[
            TopicData(
                topic_name=topic.topic_name, partitions=[answer(topic.topic_name, one) for one in topic.partitions]
            )
            for topic in request.topics
        ],
        nodes=[_node(node) for node in voters] if is_known and api_version >= _MESSAGES_FROM_VERSION else (),
    )


def _node(node: ClusterNode) -> Node:
    host, port = node.internal or (node.host, node.port)
    return Node(node_id=node.node_id, listeners=[Listener(name="CONTROLLER", host=host, port=port)])
