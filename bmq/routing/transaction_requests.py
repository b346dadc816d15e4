"""The transaction APIs: how their requests are routed to the coordinators of their transactional ids.

These requests may, or may not, be sent again when the outcome of the first try is unknown:

EndTxn 5         may: it names an epoch that the first try bumped, so a second one is recognised and answered alike.
AddPartitionsToTxn 4 and 5  may: they are of transaction version 2, so their epoch is stale after the transaction's end.
                 Those that only verify change nothing.
InitProducerId   with a producer id and epoch may: it gets the same epoch again.
DescribeTransactions  may: it changes nothing.
EndTxn 0-4, AddPartitionsToTxn 0-3, AddOffsetsToTxn  may not: all transactions of a producer have one epoch, so a first
                 try that was only delayed could end, or begin, the next one. The client gets
                 COORDINATOR_NOT_AVAILABLE and decides; it begins no other transaction before it has an answer.
InitProducerId   of a new instance may not: each try bumps the epoch, and a delayed one would fence its own sender.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from bmq.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from bmq.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse, AddPartitionsToTxnResult
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.messages.describe_transactions_response import DescribeTransactionsResponse, TransactionState
from bmq.protocol.messages.end_txn_response import EndTxnResponse
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.messages.init_producer_id_response import InitProducerIdResponse
from bmq.protocol.refusals import partitions_refused
from bmq.routing.shard_requests import ShardRequest, moving

_BATCHED_FROM: Final = 4  # AddPartitionsToTxn
_EPOCH_BUMP_FROM: Final = 5  # EndTxn
_NO_PRODUCER_ID: Final = -1


class TransactionRequest(ShardRequest):
    """A request about one transactional id."""

    @property
    def keys(self) -> Sequence[str]:
        return (self.request.transactional_id,)


class Init(TransactionRequest):
    """InitProducerId with a transactional id."""

    api_key = ApiKey.INIT_PRODUCER_ID

    @property
    def is_repeatable(self) -> bool:
        asked: InitProducerIdRequest = self.request
        return asked.producer_id != _NO_PRODUCER_ID

    def refusal(self, key: str, code: ErrorCode) -> InitProducerIdResponse:
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)


class Add(TransactionRequest):
    """AddPartitionsToTxn of a client: an error of the whole transaction is set on every partition."""

    api_key = ApiKey.ADD_PARTITIONS_TO_TXN

    @property
    def keys(self) -> Sequence[str]:
        return (self.request.v3_and_below_transactional_id,)

    @property
    def is_repeatable(self) -> bool:
        return False

    def code(self, part: AddPartitionsToTxnResponse) -> int:
        return moving(
            one.partition_error_code
            for topic in part.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        )

    def refusal(self, key: str, code: ErrorCode) -> AddPartitionsToTxnResponse:
        asked: AddPartitionsToTxnRequest = self.request
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=partitions_refused(asked.v3_and_below_topics, code)
        )


class AddMany(TransactionRequest):
    """AddPartitionsToTxn of partitions' owners, for any number of transactional ids."""

    api_key = ApiKey.ADD_PARTITIONS_TO_TXN

    def __init__(self, request: AddPartitionsToTxnRequest, api_version: int) -> None:
        super().__init__(request, api_version)
        self._keys = [one.transactional_id for one in request.transactions]
        self._topics = {one.transactional_id: one.topics for one in request.transactions}

    @property
    def keys(self) -> Sequence[str]:
        return self._keys

    def about(self, keys: Sequence[str], places: Sequence[int]) -> AddPartitionsToTxnRequest:
        asked: AddPartitionsToTxnRequest = self.request
        return replace(asked, transactions=[asked.transactions[place] for place in places])

    def parts(self, response: AddPartitionsToTxnResponse) -> Sequence[AddPartitionsToTxnResult]:
        return response.results_by_transaction

    def code(self, part: AddPartitionsToTxnResult) -> int:
        return moving(one.partition_error_code for topic in part.topic_results for one in topic.results_by_partition)

    def refusal(self, key: str, code: ErrorCode) -> AddPartitionsToTxnResult:
        return AddPartitionsToTxnResult(transactional_id=key, topic_results=partitions_refused(self._topics[key], code))

    def response(self, parts: Sequence[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_transaction=parts)


class AddOffsets(TransactionRequest):
    """AddOffsetsToTxn."""

    api_key = ApiKey.ADD_OFFSETS_TO_TXN

    @property
    def is_repeatable(self) -> bool:
        return False

    def refusal(self, key: str, code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=code)


class End(TransactionRequest):
    """EndTxn."""

    api_key = ApiKey.END_TXN

    @property
    def is_repeatable(self) -> bool:
        return self.api_version >= _EPOCH_BUMP_FROM

    def refusal(self, key: str, code: ErrorCode) -> EndTxnResponse:
        return EndTxnResponse(error_code=code)


class Describe(TransactionRequest):
    """DescribeTransactions."""

    api_key = ApiKey.DESCRIBE_TRANSACTIONS

    @property
    def keys(self) -> Sequence[str]:
        asked: DescribeTransactionsRequest = self.request
        return asked.transactional_ids

    def about(self, keys: Sequence[str], places: Sequence[int]) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=keys)

    def parts(self, response: DescribeTransactionsResponse) -> Sequence[TransactionState]:
        return response.transaction_states

    def refusal(self, key: str, code: ErrorCode) -> TransactionState:
        return TransactionState(transactional_id=key, error_code=code)

    def response(self, parts: Sequence[TransactionState]) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(transaction_states=parts)


def transaction_request(api_key: ApiKey, request: Any, api_version: int) -> TransactionRequest:
    """Wrap a request for routing. KeyError for an API that is not routed this way."""
    if api_key is ApiKey.ADD_PARTITIONS_TO_TXN and api_version >= _BATCHED_FROM:
        return AddMany(request, api_version)
    return _FORMS[api_key](request, api_version)


_FORMS: Final[dict[ApiKey, type[TransactionRequest]]] = {
    form.api_key: form for form in (Init, Add, AddOffsets, End, Describe)
}
