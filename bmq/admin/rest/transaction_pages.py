"""Open transactions of a transactional id: what it has, and the answer of an application that was asked. By the id's coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import OrderRefused, UnknownSubject
from bmq.admin.rest.parameters import NUMBER, TransactionalId
from bmq.admin.rest.problems import ElsewhereError, ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import url_of
from bmq.coordinator.runtime.directory import shard_of
from bmq.coordinator.topics import TRANSACTIONS_TOPIC
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from bmq.protocol.request_context import by_itself
from bmq.protocol.transaction_decisions import TransactionDecideRequest, refusal

if TYPE_CHECKING:
    from bmq.coordinator.transactions.coordinator import TransactionCoordinator

_PATH: Final = "/v1/transactions/{transactional_id:path}"
_OPEN: Final = "Ongoing"
_EXACT_MAX: Final = 2**53 - 1
"""The largest whole number that JSON has exactly."""


class TransactionView(BaseModel):
    """`producer_id`, `producer_epoch` and `started_ms` name the transaction that is open, or was the last one."""

    transactional_id: str
    state: str
    is_open: bool
    producer_id: int
    producer_epoch: int
    started_ms: int
    timeout_ms: int


class TransactionForm(BaseModel):
    """Names a transaction, as a check does."""

    model_config = ConfigDict(extra="forbid")

    producer_id: Annotated[int, Field(ge=0, le=_EXACT_MAX), NUMBER]
    producer_epoch: Annotated[int, Field(ge=0, le=2**15 - 1), NUMBER]
    started_ms: Annotated[int, Field(ge=0, le=_EXACT_MAX), NUMBER]


class EndedView(BaseModel):
    """The transaction has this end, durably, now or since before."""

    transactional_id: str
    is_committed: bool


def transaction_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get(_PATH, responses=errors(404, 422, 503, may_redirect=True))
    async def transaction(transactional_id: TransactionalId) -> TransactionView:
        """What the coordinator knows of a transactional id."""
        coordinator = _coordinator_of(sources, transactional_id)
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        answer = await coordinator.describe_transactions(request, by_itself(ApiKey.DESCRIBE_TRANSACTIONS))
        (found,) = answer.transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise _unknown(transactional_id)
        if found.error_code:
            raise _not_now(transactional_id, ErrorCode(found.error_code))
        return TransactionView(
            transactional_id=transactional_id,
            state=found.transaction_state,
            is_open=found.transaction_state == _OPEN,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            started_ms=found.transaction_start_time_ms,
            timeout_ms=found.transaction_timeout_ms,
        )

    @pages.post(_PATH + "/commit", responses=errors(400, 404, 409, 422, 503, may_redirect=True))
    async def commit(transactional_id: TransactionalId, form: TransactionForm) -> EndedView:
        """Commit this transaction, whose id opted in. One that is committed already stays so."""
        return await ended(transactional_id, form, True)

    @pages.post(_PATH + "/rollback", responses=errors(400, 404, 409, 422, 503, may_redirect=True))
    async def roll_back(transactional_id: TransactionalId, form: TransactionForm) -> EndedView:
        """Abort this transaction, whose id opted in. One that is aborted already stays so."""
        return await ended(transactional_id, form, False)

    async def ended(transactional_id: str, form: TransactionForm, is_commit: bool) -> EndedView:
        request = TransactionDecideRequest(
            transactional_id=transactional_id,
            producer_id=form.producer_id,
            producer_epoch=form.producer_epoch,
            start_ms=form.started_ms,
            is_commit=is_commit,
        )
        coordinator = _coordinator_of(sources, transactional_id)
        answer = await coordinator.decide(request, by_itself(ApiKey.TRANSACTION_DECIDE))
        why = refusal(answer.error_code, request)
        if why is not None:
            raise OrderRefused(why)
        if answer.error_code:
            raise _not_now(transactional_id, ErrorCode(answer.error_code))
        return EndedView(transactional_id=transactional_id, is_committed=is_commit)

    return pages


def _unknown(transactional_id: str) -> UnknownSubject:
    return UnknownSubject(f"there is no transactional id {transactional_id}")


def _not_now(transactional_id: str, code: ErrorCode) -> ProblemError:
    return ProblemError(
        503, f"the coordinator of {transactional_id} does not serve it now ({code.name}); ask again in a moment"
    )


def _coordinator_of(sources: RestSources, transactional_id: str) -> TransactionCoordinator:
    """Raises ElsewhereError with the address of the coordinator's node, UnknownSubject, ProblemError."""
    image = sources.image()
    topic = image.topics.get(TRANSACTIONS_TOPIC)
    if topic is None:
        raise _unknown(transactional_id)
    leader = topic.partitions[shard_of(transactional_id, len(topic.partitions))].leader
    coordinator = sources.transactions()
    if leader == sources.node_id and coordinator is not None:
        return coordinator
    owner = image.nodes.get(leader)
    if owner is None or owner.rest is None or owner.node_id == sources.node_id:
        raise _not_now(transactional_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    raise ElsewhereError(url_of(owner.rest, sources.scheme))
