"""Transactions: listed, shown and aborted by Kafka's requests; and the answer of an application that was asked, at the coordinator."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import OrderRefused
from bmq.admin.rest.parameters import NUMBER, DryRun, TransactionalId, WholeNumber
from bmq.admin.rest.problems import ElsewhereError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.transaction_listing import Shown, transaction_page
from bmq.admin.rest.transaction_requests import abort, found, not_now, unknown
from bmq.admin.rest.transaction_views import (
    OPEN,
    TransactionPage,
    TransactionPartitions,
    TransactionView,
    partition_words,
    topics_of,
    transaction_view,
)
from bmq.admin.rest.user_requests import UserRequests, unguarded_requests, user_requests
from bmq.admin.rest.views import url_of
from bmq.coordinator.runtime.directory import shard_of
from bmq.coordinator.topics import TRANSACTIONS_TOPIC
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.request_context import by_itself
from bmq.protocol.transaction_decisions import TransactionDecideRequest, refusal

if TYPE_CHECKING:
    from bmq.coordinator.transactions.coordinator import TransactionCoordinator

_PATH: Final = "/v1/transactions/{transactional_id:path}"
LISTED_MAX: Final = 1_000
LISTS_MAX: Final = 2
"""Lists at the same time; others wait."""
_TransactionalIdText = Annotated[str, Query(max_length=1_000)]


class TransactionForm(BaseModel):
    """Names a transaction, as a check does."""

    model_config = ConfigDict(extra="forbid")

    producer_id: WholeNumber
    producer_epoch: Annotated[int, Field(ge=0, le=2**15 - 1), NUMBER]
    started_ms: WholeNumber


class EndedView(BaseModel):
    """The transaction has this end, durably, now or since before."""

    transactional_id: str
    is_committed: bool


class AbortView(BaseModel):
    """The abort of a transaction; with `dry_run` what would be done. `state`: of the id afterwards."""

    transactional_id: str
    summary: str
    state: str
    topics: list[TransactionPartitions]


def transaction_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()
    lists = asyncio.Semaphore(LISTS_MAX)

    @pages.get("/v1/transactions", responses=errors(422, 503, 504))
    async def transactions(
        request: Request,
        show: Annotated[Shown, Query(description="Only those without an end, or only those that hang")] = Shown.ALL,
        prefix: _TransactionalIdText = "",
        after: Annotated[_TransactionalIdText, Query(description="Only ids that follow this one")] = "",
        limit: Annotated[int, Query(ge=1, le=LISTED_MAX)] = 100,
    ) -> TransactionPage:
        """Transactional ids that the client may describe, in their order, page by page, with what is open under each."""
        requests = user_requests(sources, request)
        async with lists:
            return await transaction_page(requests, show, prefix, after, limit)

    @pages.get(_PATH, responses=errors(403, 404, 422, 503, 504))
    async def transaction(request: Request, transactional_id: TransactionalId) -> TransactionView:
        """What the coordinator knows of a transactional id. Any node answers."""
        requests = unguarded_requests(sources, request)
        return transaction_view(await found(requests, transactional_id), requests.now_ms())

    @pages.post(_PATH + "/abort", responses=errors(400, 403, 404, 409, 413, 422, 503, 504))
    async def abort_one(
        request: Request, transactional_id: TransactionalId, form: TransactionForm, dry_run: DryRun = False
    ) -> AbortView:
        """Abort this open transaction and fence its producer, as `fenceProducers` of Kafka's Admin does. It cannot be undone."""
        return await _aborted(user_requests(sources, request), transactional_id, form, is_dry_run=dry_run)

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
            raise not_now(transactional_id, ErrorCode(answer.error_code))
        return EndedView(transactional_id=transactional_id, is_committed=is_commit)

    return pages


async def _aborted(
    requests: UserRequests, transactional_id: str, form: TransactionForm, *, is_dry_run: bool
) -> AbortView:
    """Raises UnknownSubject, OrderRefused, ProblemError."""
    state = await found(requests, transactional_id)
    named = (form.producer_id, form.producer_epoch, form.started_ms)
    if named != (state.producer_id, state.producer_epoch, state.transaction_start_time_ms):
        raise OrderRefused(f"transactional id {transactional_id} has another transaction now, or none")
    if state.transaction_state != OPEN:
        raise OrderRefused(f"the transaction of {transactional_id} is not open: its state is {state.transaction_state}")
    topics = topics_of(state)
    where = partition_words(topics)
    summary = f"The transaction gets an abort marker in {where}, and producer {state.producer_id} is fenced."
    if not is_dry_run:
        state = await abort(requests, state)
        summary = f"The transaction is aborted in {where}, and producer {form.producer_id} is fenced."
    return AbortView(transactional_id=transactional_id, summary=summary, state=state.transaction_state, topics=topics)


def _coordinator_of(sources: RestSources, transactional_id: str) -> TransactionCoordinator:
    """Raises ElsewhereError with the address of the coordinator's node, UnknownSubject, ProblemError."""
    image = sources.image()
    topic = image.topics.get(TRANSACTIONS_TOPIC)
    if topic is None:
        raise unknown(transactional_id)
    leader = topic.partitions[shard_of(transactional_id, len(topic.partitions))].leader
    coordinator = sources.transactions()
    if leader == sources.node_id and coordinator is not None:
        return coordinator
    owner = image.nodes.get(leader)
    if owner is None or owner.rest is None or owner.node_id == sources.node_id:
        raise not_now(transactional_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    raise ElsewhereError(url_of(owner.rest, sources.scheme))
