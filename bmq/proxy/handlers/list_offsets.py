"""ListOffsets: for each partition the first or last offset, or the first at or past a timestamp.

There is no tiered storage, so "local" means the whole log, and "tiered" and "pending upload" offsets do not exist (KIP-405,
KIP-1005, KIP-1023). Offsets past the high watermark are hidden from all clients, also from replicas and debuggers.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import Final

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from bmq.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from bmq.protocol.request_context import RequestContext
from bmq.protocol.turns import Pace
from bmq.proxy.dispatch import handles
from bmq.proxy.partition_access import (
    UnwrittenPartitions,
    check_epoch,
    check_leader_epoch,
    for_each,
    leader_log,
    topic_named,
)
from bmq.proxy.services import Services

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_SINCE_VERSION: Final = {
    _LATEST: 1,
    _EARLIEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
_ENDS: Final = (_LATEST, _EARLIEST, _EARLIEST_LOCAL)
_READ_COMMITTED: Final = 1
_ISOLATION_LEVELS: Final = (0, _READ_COMMITTED)
_NONE: Final = -1


@handles(ApiKey.LIST_OFFSETS)
async def list_offsets(request: ListOffsetsRequest, context: RequestContext, services: Services) -> ListOffsetsResponse:
    """Answer ListOffsets 1-11.

    A partition that is named twice gets one result, INVALID_REQUEST; an unknown special timestamp gets UNSUPPORTED_VERSION. An
    unknown isolation level is UNKNOWN_SERVER_ERROR for all partitions, as in Kafka, whose code throws.
    """
    if request.isolation_level not in _ISOLATION_LEVELS:
        return _refused(request, ErrorCode.UNKNOWN_SERVER_ERROR, services)
    turns, pace = context.turns, Pace()
    named = Counter[tuple[str, int]]()
    for topic in request.topics:
        for wanted in topic.partitions:
            named[topic.name, wanted.partition_index] += 1
            if pace.is_over():
                await turns.next()
    unwritten = UnwrittenPartitions(services)

    async def one(pair: tuple[str, ListOffsetsPartition]) -> ListOffsetsPartitionResponse:
        name, wanted = pair
        try:
            if named[name, wanted.partition_index] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"partition {wanted.partition_index} is named twice")
            if wanted.timestamp < 0 and context.api_version < _SINCE_VERSION.get(wanted.timestamp, 2**15):
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {wanted.timestamp} is not served")
            offset, timestamp_ms, epoch = await _found(services, unwritten, name, wanted, request.isolation_level)
        except BmqError as error:
            services.stats.note_error(ApiKey.LIST_OFFSETS, error.code)
            return ListOffsetsPartitionResponse(partition_index=wanted.partition_index, error_code=error.code)
        return ListOffsetsPartitionResponse(
            partition_index=wanted.partition_index, timestamp=timestamp_ms, offset=offset, leader_epoch=epoch
        )

    # Kafka answers for a partition once, also if a topic names it several times.
    pairs: list[tuple[str, ListOffsetsPartition]] = []
    counts = []
    for topic in request.topics:
        asked: dict[int, ListOffsetsPartition] = {}
        for wanted in topic.partitions:
            asked[wanted.partition_index] = wanted
            if pace.is_over():
                await turns.next()
        pairs += ((topic.name, wanted) for wanted in asked.values())
        counts.append(len(asked))
        if pace.is_over():
            await turns.next()
    results = iter(await for_each(pairs, one, turns))
    topics = []
    for topic, count in zip(request.topics, counts, strict=True):
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=list(islice(results, count))))
        if pace.is_over():
            await turns.next()
    return ListOffsetsResponse(topics=topics)


async def _found(
    services: Services,
    unwritten: UnwrittenPartitions,
    name: str,
    wanted: ListOffsetsPartition,
    isolation_level: int,
) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch) of what is asked for; each is -1 if it does not exist. Raises BmqError."""
    topic, number = topic_named(services, name), wanted.partition_index
    key = TopicPartition(topic.log_id, number)
    log = services.partitions.ready(key)
    if log is None and topic.partition(number) is not None:
        leader_epoch = await unwritten.leader_epoch(key)
        if leader_epoch is not None:
            check_epoch(leader_epoch, wanted.current_leader_epoch)
            return (0, _NONE, leader_epoch) if wanted.timestamp in _ENDS else (_NONE, _NONE, _NONE)
    log = log or await leader_log(services, topic, number)
    check_leader_epoch(log, wanted.current_leader_epoch)
    return await _look_up(log, wanted.timestamp, isolation_level)


def _refused(request: ListOffsetsRequest, code: ErrorCode, services: Services) -> ListOffsetsResponse:
    services.stats.note_error(ApiKey.LIST_OFFSETS, code)
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(partition_index=one.partition_index, error_code=code)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


async def _look_up(log: PartitionLog, timestamp: int, isolation_level: int) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch) by the log; each is -1 if it does not exist."""
    is_committed = isolation_level == _READ_COMMITTED
    if timestamp not in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        # Rule 15: an owner that was replaced without knowing it would report an old state. So would our copy of a log that
        # another node owns.
        await log.prove_ownership()
    if timestamp == _LATEST:
        return log.last_stable_offset if is_committed else log.high_watermark, _NONE, log.leader_epoch
    if timestamp in (_EARLIEST, _EARLIEST_LOCAL):
        return log.log_start_offset, _NONE, epoch_at(log, log.log_start_offset)
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return _NONE, _NONE, _NONE
    bound_offset = log.last_stable_offset if is_committed else log.high_watermark
    if timestamp == _MAX_TIMESTAMP:
        found = await log.max_timestamp()
    else:
        found = await log.offset_for_timestamp(timestamp, bound_offset)
    if found is None or found[0] >= bound_offset:
        return _NONE, _NONE, _NONE
    offset, timestamp_ms = found
    return offset, timestamp_ms, epoch_at(log, offset)


def epoch_at(log: PartitionLog, offset: int) -> int:
    """The leader epoch in which `offset` was or will be written: the first whose end is past it."""
    low, high = 0, log.leader_epoch
    while low < high:
        middle = (low + high) // 2
        if log.epoch_end_offset(middle)[1] > offset:
            high = middle
        else:
            low = middle + 1
    epoch, end_offset = log.epoch_end_offset(low)
    return epoch if end_offset > offset else log.leader_epoch
