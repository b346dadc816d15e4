"""DescribeProducers: a partition's producers and open transactions (KIP-664).

A proxy also sends it to the partition's owner, where `services.partitions` has only the logs of that process.
"""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.describe_producers_request import DescribeProducersRequest
from bmq.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.topic_names import validate_name
from bmq.proxy.dispatch import handles
from bmq.proxy.partition_access import for_each, leader_log, topic_named
from bmq.proxy.services import Services


@handles(ApiKey.DESCRIBE_PRODUCERS)
async def describe_producers(
    request: DescribeProducersRequest, context: RequestContext, services: Services
) -> DescribeProducersResponse:
    """DescribeProducers 0."""

    async def one(pair: tuple[str, int]) -> PartitionResponse:
        name, partition = pair
        try:
            validate_name(name)
            log = await leader_log(services, topic_named(services, name), partition)
            producers = await log.active_producers()
        except BmqError as error:
            services.stats.note_error(ApiKey.DESCRIBE_PRODUCERS, error.code)
            return PartitionResponse(partition_index=partition, error_code=error.code, error_message=str(error))
        return PartitionResponse(
            partition_index=partition,
            active_producers=[
                ProducerState(
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    last_sequence=producer.last_sequence,
                    last_timestamp=producer.last_timestamp_ms,
                    coordinator_epoch=producer.coordinator_epoch,
                    current_txn_start_offset=producer.transaction_first_offset,
                )
                for producer in producers
            ],
        )

    pairs = [(topic.name, partition) for topic in request.topics for partition in topic.partition_indexes]
    results = iter(await for_each(pairs, one))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=topic.name, partitions=[next(results) for _ in topic.partition_indexes])
            for topic in request.topics
        ]
    )
