"""What is read by hand, as the codec would give it."""

from __future__ import annotations

from uuid import UUID

from bmq.protocol import hot_produce
from bmq.protocol.internal_messages import TailFetchResponse
from bmq.protocol.messages import produce_request as produce


def as_message(request: hot_produce.Produce) -> produce.ProduceRequest:
    return produce.ProduceRequest(
        transactional_id=request.transactional_id,
        acks=request.acks,
        timeout_ms=request.timeout_ms,
        topic_data=tuple(
            produce.TopicProduceData(
                name=topic.name or "",
                topic_id=topic.topic_id,
                partition_data=tuple(
                    produce.PartitionProduceData(
                        index=data.partition, records=None if data.records is None else bytes(data.records)
                    )
                    for data in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def some_id(message: TailFetchResponse) -> TailFetchResponse:
    """The codec reads a topic id of zeros as None; no topic has it."""
    for part in message.partitions:
        part.topic_id = part.topic_id or UUID(int=5)
    return message
