"""The metadata log as DescribeQuorum shows it."""

from __future__ import annotations

import pytest

from bmq.controller.metadata_quorum import MetadataFollowers, MetadataLogState, describe_quorum
from bmq.metadata.image import MetadataImage, Node
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData

pytestmark = pytest.mark.unit

LOG = MetadataLogState(leader_epoch=7, high_watermark=100, end_offset=101, now_ms=5_000)
NODES = {
    1: Node(1, "h1", 9092, internal=("i1", 9093)),
    2: Node(2, "h2", 9092, internal=("i2", 9093), roles=frozenset({"controller"})),
    3: Node(3, "h3", 9092, roles=frozenset({"proxy", "broker"})),
}
IMAGE = MetadataImage(controller_id=2, nodes=NODES)


def ask(*partitions: int, name: str = "__cluster_metadata") -> DescribeQuorumRequest:
    topic = TopicData(topic_name=name, partitions=[PartitionData(partition_index=number) for number in partitions])
    return DescribeQuorumRequest(topics=[topic])


def test_owner_candidates_and_observers() -> None:
    followers = MetadataFollowers()
    followers.fetched(1, 101, 101, 4_000)
    followers.fetched(1, 90, 101, 4_500)
    answer = describe_quorum(IMAGE, LOG, followers, ask(0), 2)
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch, partition.high_watermark) == (2, 7, 100)
    voters = {
        one.replica_id: (one.log_end_offset, one.last_fetch_timestamp, one.last_caught_up_timestamp)
        for one in partition.current_voters
    }
    assert voters == {1: (90, 4_500, 4_000), 2: (101, 5_000, 5_000)}
    assert [(one.replica_id, one.log_end_offset) for one in partition.observers] == [(3, -1)]
    assert {node.node_id: node.listeners[0].host for node in answer.nodes} == {1: "i1", 2: "i2"}
    assert (answer.error_message, partition.error_message) == ("", "")
    assert not describe_quorum(IMAGE, LOG, followers, ask(0), 1).nodes


@pytest.mark.parametrize("request_", [ask(1), ask(0, name="t")])
def test_only_the_metadata_log_is_known(request_: DescribeQuorumRequest) -> None:
    answer = describe_quorum(IMAGE, LOG, MetadataFollowers(), request_, 2)
    (partition,) = answer.topics[0].partitions
    assert (partition.error_code, bool(partition.error_message)) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True)
    assert (answer.error_message, list(answer.nodes)) == ("", [])
