"""The forms of the transaction coordinator's requests and answers. Decisions only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from bmq.coordinator.transactions.transaction import Partition
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from bmq.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)
from bmq.protocol.messages.init_producer_id_response import InitProducerIdResponse
from bmq.protocol.request_context import RequestContext
from bmq.protocol.transaction_records import ID_BYTES_MAX, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from bmq.protocol.turns import Pace
from bmq.protocol.wire_turns import InTurns

BATCHED_FROM: Final = 4
"""From this version on AddPartitionsToTxn is sent by brokers, for any number of transactional ids."""
_FENCED_AS_INVALID_EPOCH: Final = {
    ApiKey.INIT_PRODUCER_ID: 3,
    ApiKey.ADD_PARTITIONS_TO_TXN: 1,
    ApiKey.ADD_OFFSETS_TO_TXN: 1,
    ApiKey.END_TXN: 1,
}
"""Up to this version clients do not know PRODUCER_FENCED."""


def named_in(api_key: ApiKey, request: Any, api_version: int) -> str:
    """The only transactional id that a request names; empty if it names none, or several."""
    if api_key is ApiKey.ADD_PARTITIONS_TO_TXN:
        if api_version < BATCHED_FROM:
            return str(request.v3_and_below_transactional_id)
        return str(request.transactions[0].transactional_id) if len(request.transactions) == 1 else ""
    if api_key is ApiKey.DESCRIBE_TRANSACTIONS:
        return str(request.transactional_ids[0]) if len(request.transactional_ids) == 1 else ""
    return str(getattr(request, "transactional_id", "") or "")


def is_valid_id(transactional_id: str) -> bool:
    return 0 < len(transactional_id) <= ID_BYTES_MAX and len(transactional_id.encode()) <= ID_BYTES_MAX


def init_error(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)


def error_for_version(code: ErrorCode, api_key: ApiKey, context: RequestContext) -> ErrorCode:
    """The error as a client of this version knows it."""
    if code is ErrorCode.PRODUCER_FENCED and context.api_version <= _FENCED_AS_INVALID_EPOCH[api_key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def partitions_of(topics: Sequence[AddPartitionsToTxnTopic]) -> InTurns[list[Partition]]:
    named: list[Partition] = []
    pace = Pace()
    for topic in topics:
        named += ((topic.name, number) for number in topic.partitions)
        if pace.is_over():
            yield
    return named


def results_by_topic(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Iterator[ErrorCode]
) -> InTurns[list[AddPartitionsToTxnTopicResult]]:
    """In the request's order, which is that of `partitions_of`."""
    results = []
    pace = Pace()
    for topic in topics:
        of_topic = []
        for number in topic.partitions:
            of_topic.append(AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=next(codes)))
            if pace.is_over():
                yield
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=of_topic))
        if pace.is_over():
            yield
    return results
