"""OffsetForLeaderEpoch: the end offset of an epoch, by which consumers detect a truncated log (KIP-101, KIP-320)."""

from __future__ import annotations

from typing import Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from bmq.protocol.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.partition_access import check_leader_epoch, for_each, leader_log, topic_named
from bmq.proxy.services import Services

START_WAIT_MAX_S: Final = 0.5
"""Longest wait of a whole request. After a node's death consumers ask about all partitions that have another leader. Their
fetches of other partitions wait behind this answer, on the same connection. They ask again for partitions that are refused."""


@handles(ApiKey.OFFSET_FOR_LEADER_EPOCH)
async def offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, context: RequestContext, services: Services
) -> OffsetForLeaderEpochResponse:
    """Answer OffsetForLeaderEpoch 2-4. For an epoch that the log does not know it is (-1, -1)."""

    until_s = services.loop.time() + START_WAIT_MAX_S

    async def one(pair: tuple[str, OffsetForLeaderPartition]) -> EpochEndOffset:
        name, wanted = pair
        try:
            log = await leader_log(services, topic_named(services, name), wanted.partition, until_s=until_s)
            check_leader_epoch(log, wanted.current_leader_epoch)
            # To the consumer, an end offset before its position would look like a truncated log.
            await log.prove_ownership()
            epoch, end_offset = log.epoch_end_offset(wanted.leader_epoch)
        except BmqError as error:
            services.stats.note_error(ApiKey.OFFSET_FOR_LEADER_EPOCH, error.code)
            return EpochEndOffset(partition=wanted.partition, error_code=error.code)
        return EpochEndOffset(partition=wanted.partition, leader_epoch=epoch, end_offset=end_offset)

    pairs = [(topic.topic, wanted) for topic in request.topics for wanted in topic.partitions]
    results = iter(await for_each(pairs, one))
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic=topic.topic, partitions=[next(results) for _ in topic.partitions])
            for topic in request.topics
        ]
    )
