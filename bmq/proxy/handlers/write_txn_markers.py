"""WriteTxnMarkers: ends transactions in partitions, for a transaction coordinator or an operator (KIP-664).

Clients (`kafka-transactions abort`) and nodes use it in the same way: each partition's marker goes to its owner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

import structlog

from bmq.log.partition_log import TopicPartition
from bmq.log.transactions import TransactionMarker
from bmq.metadata.image import INTERNAL_TOPICS, OFFSETS_TOPIC_NAME
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from bmq.protocol.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services

AT_ONCE_MAX: Final = 1_000
"""Most markers of one request that are written concurrently."""
_log = structlog.get_logger("bmq.proxy")


@handles(ApiKey.WRITE_TXN_MARKERS)
async def write_txn_markers(
    request: WriteTxnMarkersRequest, context: RequestContext, services: Services
) -> WriteTxnMarkersResponse:
    """Answer WriteTxnMarkers 1-2, in the request's order, when all markers are durable or refused."""
    if not services.is_between_nodes:
        _log.info("markers_asked_for", client_id=context.client_id, markers=len(request.markers))
    wanted = [
        (_marker(one), topic.name, number)
        for one in request.markers
        for topic in one.topics
        for number in topic.partition_indexes
    ]
    codes: list[ErrorCode] = []
    for start in range(0, len(wanted), AT_ONCE_MAX):
        codes += await asyncio.gather(*(_write(services, *one) for one in wanted[start : start + AT_ONCE_MAX]))
    left = iter(codes)
    return WriteTxnMarkersResponse(markers=[_result(one, left) for one in request.markers])


def _marker(asked: WritableTxnMarker) -> TransactionMarker:
    return TransactionMarker(
        asked.producer_id,
        asked.producer_epoch,
        asked.coordinator_epoch,
        asked.transaction_result,
        asked.transaction_version,
    )


async def _write(services: Services, marker: TransactionMarker, name: str, number: int) -> ErrorCode:
    if name in INTERNAL_TOPICS and name != OFFSETS_TOPIC_NAME:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED  # only coordinators may write to the logs of internal topics
    if marker.producer_id < 0 or marker.producer_epoch < 0 or marker.transaction_version < 0:
        return ErrorCode.UNKNOWN_SERVER_ERROR  # Kafka's answer: no marker batch can have such values
    topic = services.controller.image.topics.get(name)
    if topic is None or topic.partition(number) is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.view is not None:
        return ErrorCode.POLICY_VIOLATION
    try:
        await services.markers.write(TopicPartition(topic.topic_id, number), marker)
    except BmqError as error:
        return error.code
    return ErrorCode.NONE


def _result(asked: WritableTxnMarker, codes: Iterator[ErrorCode]) -> WritableTxnMarkerResult:
    return WritableTxnMarkerResult(
        producer_id=asked.producer_id,
        topics=[
            WritableTxnMarkerTopicResult(
                name=topic.name,
                partitions=[
                    WritableTxnMarkerPartitionResult(partition_index=number, error_code=next(codes))
                    for number in topic.partition_indexes
                ],
            )
            for topic in asked.topics
        ],
    )
