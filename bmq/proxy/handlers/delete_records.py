"""DeleteRecords: raise the log start offset of partitions (KIP-107)."""

from __future__ import annotations

from typing import Final

from bmq.log.partition_log import PartitionLog
from bmq.metadata.image import INTERNAL_TOPICS
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from bmq.protocol.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.partition_access import for_each, leader_log, require_writable, topic_named
from bmq.proxy.services import Services

_NO_WATERMARK: Final = -1
_TO_HIGH_WATERMARK: Final = -1


@handles(ApiKey.DELETE_RECORDS)
async def delete_records(
    request: DeleteRecordsRequest, context: RequestContext, services: Services
) -> DeleteRecordsResponse:
    """Answer DeleteRecords 0-2 when the new log start is durable, also after the request's timeout.

    There are no followers to wait for, and a deletion that has begun must not be reported as not done.
    """

    async def one(pair: tuple[str, DeleteRecordsPartition]) -> DeleteRecordsPartitionResult:
        name, wanted = pair
        try:
            low_watermark = await _delete(services, name, wanted)
        except BmqError as error:
            services.stats.note_error(ApiKey.DELETE_RECORDS, error.code)
            return DeleteRecordsPartitionResult(
                partition_index=wanted.partition_index, low_watermark=_NO_WATERMARK, error_code=error.code
            )
        return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)

    pairs = [(topic.name, wanted) for topic in request.topics for wanted in topic.partitions]
    results = iter(await for_each(pairs, one))
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(name=topic.name, partitions=[next(results) for _ in topic.partitions])
            for topic in request.topics
        ]
    )


async def _delete(services: Services, name: str, wanted: DeleteRecordsPartition) -> int:
    topic = topic_named(services, name)
    if name in INTERNAL_TOPICS:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic")
    require_writable(topic)
    log = await leader_log(services, topic, wanted.partition_index)
    if "delete" not in topic.log_config.cleanup_policy:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"cleanup.policy of {name} does not include delete")
    if wanted.offset < _TO_HIGH_WATERMARK or wanted.offset > log.high_watermark:
        await _confirm_out_of_range(log, wanted.offset)
    return await log.delete_records(wanted.offset)


async def _confirm_out_of_range(log: PartitionLog, offset: int) -> None:
    """Refuse an offset past the high watermark, after a proof of ownership (rule 14). Returns if it is in range by then."""
    await log.prove_ownership()
    if offset < _TO_HIGH_WATERMARK or offset > log.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"offset {offset} is past the high watermark {log.high_watermark}"
        )
