"""Transactions by Kafka's requests: looked up at their coordinators, and aborted as `fenceProducers` of Kafka's Admin does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from bmq.admin.orders import UnknownSubject
from bmq.admin.rest.problems import ProblemError
from bmq.admin.rest.transaction_views import OPEN
from bmq.admin.rest.user_requests import UserRequests, check
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.messages.describe_transactions_response import TransactionState
from bmq.protocol.messages.init_producer_id_request import InitProducerIdRequest
from bmq.protocol.messages.list_transactions_request import ListTransactionsRequest
from bmq.protocol.messages.list_transactions_response import ListTransactionsResponse

TRIES: Final = 5
TRY_AGAIN_S: Final = 0.2
"""Between two tries to abort a transaction one of whose records is being written."""


async def listed(
    requests: UserRequests, states: Sequence[str] = (), producer_ids: Sequence[int] = ()
) -> ListTransactionsResponse:
    """The transactional ids that the client may describe. Raises ProblemError."""
    asked = ListTransactionsRequest(state_filters=states, producer_id_filters=producer_ids)
    answer: ListTransactionsResponse = await requests.ask(ApiKey.LIST_TRANSACTIONS, asked)
    check(answer.error_code)
    return answer


async def described(requests: UserRequests, transactional_ids: Sequence[str]) -> Sequence[TransactionState]:
    """The states of these ids, each with an error code. Raises ProblemError."""
    if not transactional_ids:
        return ()
    asked = DescribeTransactionsRequest(transactional_ids=transactional_ids)
    answer = await requests.ask(ApiKey.DESCRIBE_TRANSACTIONS, asked)
    found: Sequence[TransactionState] = answer.transaction_states
    return found


async def found(requests: UserRequests, transactional_id: str) -> TransactionState:
    """Raises UnknownSubject, ProblemError."""
    (state,) = await described(requests, [transactional_id])
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        raise unknown(transactional_id)
    if state.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        check(state.error_code)
    if state.error_code:
        raise not_now(transactional_id, ErrorCode(state.error_code))
    return state


async def abort(requests: UserRequests, state: TransactionState) -> TransactionState:
    """Abort the open transaction and fence its producer. Returns the id's later state once the abort is durable; markers follow.

    InitProducerId names the producer, so another producer of the id is not fenced. A transaction that the same producer begins
    between the caller's look at `state` and this request is aborted in its place. Raises ProblemError.
    """
    asked = InitProducerIdRequest(
        transactional_id=state.transactional_id,
        transaction_timeout_ms=state.transaction_timeout_ms,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
    )
    for number in range(TRIES):
        if number:
            await asyncio.sleep(TRY_AGAIN_S)
        answer = await requests.ask(ApiKey.INIT_PRODUCER_ID, asked)
        code = ErrorCode(answer.error_code)
        if code not in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED):
            check(code)
        # CONCURRENT_TRANSACTIONS says that the abort has begun, or that another record of the id is being written.
        later = await found(requests, state.transactional_id)
        if not is_same_open(later, state):
            return later
    raise ProblemError(503, f"the transaction of {state.transactional_id} is being changed; ask again in a moment")


def is_same_open(one: TransactionState, other: TransactionState) -> bool:
    """Whether both are the same transaction, and it is open in the first one."""
    return one.transaction_state == OPEN and _name(one) == _name(other)


def _name(state: TransactionState) -> tuple[int, int, int]:
    return state.producer_id, state.producer_epoch, state.transaction_start_time_ms


def unknown(transactional_id: str) -> UnknownSubject:
    return UnknownSubject(f"there is no transactional id {transactional_id}")


def not_now(transactional_id: str, code: ErrorCode) -> ProblemError:
    return ProblemError(
        503, f"the coordinator of {transactional_id} does not serve it now ({code.name}); ask again in a moment"
    )
