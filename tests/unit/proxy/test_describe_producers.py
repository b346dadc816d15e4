"""DescribeProducers over a socket: each partition by itself."""

from __future__ import annotations

import pytest

from bmq.log.partition_log import TopicPartition
from bmq.log.transactions import ActiveProducer
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from tests.unit.proxy.harness import TOPIC_ID, Client, Proxy

pytestmark = pytest.mark.unit


async def test_every_partition_tells_of_its_producers(proxy: Proxy, client: Client) -> None:
    proxy.log(1).producers = [ActiveProducer(7, 3, 41, 1_000, 5, 12), ActiveProducer(8, 0, -1, -1, -1, -1)]
    proxy.partitions.idle.add(TopicPartition(TOPIC_ID, 1))
    proxy.partitions.errors[TopicPartition(TOPIC_ID, 2)] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    request = DescribeProducersRequest(
        topics=[
            TopicRequest(name="t", partition_indexes=[1, 0, 2, 99, -1]),
            TopicRequest(name="nope", partition_indexes=[0]),
            TopicRequest(name="no/name", partition_indexes=[0]),
        ]
    )
    response = await client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, request)
    known, unknown, not_allowed = response.topics
    assert [(one.partition_index, one.error_code) for one in known.partitions] == [
        (1, 0),
        (0, 0),
        (2, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (99, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert [one.error_code for one in unknown.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [one.error_code for one in not_allowed.partitions] == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.coordinator_epoch,
            one.current_txn_start_offset,
        )
        for one in known.partitions[0].active_producers
    ] == [(7, 3, 41, 1_000, 5, 12), (8, 0, -1, -1, -1, -1)]
    assert list(known.partitions[1].active_producers) == []
