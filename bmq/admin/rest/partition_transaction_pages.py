"""Open transactions as a topic's partitions have them: those that no coordinator knows hang, and can be aborted."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import OrderRefused, partition_of, topic_of
from bmq.admin.rest.authorization import sees_every_transaction
from bmq.admin.rest.parameters import NUMBER, DryRun, PartitionNumber, TopicName, WholeNumber
from bmq.admin.rest.partition_transactions import OpenProducer, open_producers, write_abort
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.user_requests import user_requests

PARTITIONS_MAX: Final = 1_000


class OpenTransactionLine(BaseModel):
    """`start_offset`: of its first record in the partition. `last_ms`: the time of its last one. `transactional_id`: null where no coordinator
    that may be asked knows it. `is_hanging`: no coordinator knows it, so nobody will end it; null for a client that may not describe
    the topic and every transactional id.
    """

    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_ms: int
    transactional_id: str | None
    is_hanging: bool | None


class OpenTransactionPage(BaseModel):
    """`problems`: why partitions do not answer, by number. `next_skip`: what to ask for next as `skip`; null on the last page."""

    topic: str
    transactions: list[OpenTransactionLine]
    problems: dict[int, str]
    next_skip: int | None


class OpenTransactionForm(BaseModel):
    """Names an open transaction of a partition, as its listing does."""

    model_config = ConfigDict(extra="forbid")

    producer_id: WholeNumber
    producer_epoch: Annotated[int, Field(ge=0, le=2**15 - 1), NUMBER]
    start_offset: WholeNumber


class MarkerView(BaseModel):
    """The abort marker that was written; with `dry_run` the one that would be."""

    summary: str


def partition_transaction_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get("/v1/topics/{name}/transactions", responses=errors(403, 404, 422, 503, 504))
    async def transactions(
        request: Request,
        name: TopicName,
        skip: Annotated[int, Query(ge=0, le=2**31 - 1, description="Partitions to leave out")] = 0,
        limit: Annotated[int, Query(ge=1, le=PARTITIONS_MAX, description="Partitions to look at")] = 200,
    ) -> OpenTransactionPage:
        """Open transactions in some partitions of a topic. Idle partitions with records are started for it."""
        topic = topic_of(sources.image(), name)
        numbers = [one.partition for one in topic.partitions]
        sees_all = sees_every_transaction(request.scope, name)
        found, problems = await open_producers(user_requests(sources, request), name, numbers[skip : skip + limit])
        return OpenTransactionPage(
            topic=name,
            transactions=[_line(one, sees_all=sees_all) for one in found],
            problems=problems,
            next_skip=skip + limit if skip + limit < len(numbers) else None,
        )

    @pages.post(
        "/v1/topics/{name}/partitions/{number}/transactions/abort",
        responses=errors(400, 403, 404, 409, 413, 422, 503, 504),
    )
    async def abort(
        request: Request,
        name: TopicName,
        number: PartitionNumber,
        form: OpenTransactionForm,
        dry_run: DryRun = False,
    ) -> MarkerView:
        """Write an abort marker for a transaction that hangs in this partition. It cannot be undone."""
        partition_of(topic_of(sources.image(), name), number)
        if not sees_every_transaction(request.scope, name):
            raise ProblemError(
                403,
                "whether a transaction hangs is known only to a client that may DESCRIBE the topic and every transactional id: "
                "an id that is denied could have it open",
            )
        requests = user_requests(sources, request)
        found, problems = await open_producers(requests, name, [number])
        if problems:
            raise ProblemError(503, f"the owner of {name}-{number} does not answer now: {problems[number]}")
        producer = next((one for one in found if _is_named(one, form)), None)
        if producer is None:
            raise OrderRefused(f"{name}-{number} has no such open transaction")
        if producer.transactional_id is not None:
            raise OrderRefused(
                f"the coordinator of {producer.transactional_id} knows this transaction: abort it by its transactional id"
            )
        if not dry_run:
            await write_abort(requests, name, producer)
        done = "gets" if dry_run else "has"
        return MarkerView(
            summary=f"{name}-{number} {done} an abort marker of producer {form.producer_id}, epoch {form.producer_epoch}."
        )

    return pages


def _is_named(producer: OpenProducer, form: OpenTransactionForm) -> bool:
    state = producer.state
    return (state.producer_id, state.producer_epoch, state.current_txn_start_offset) == (
        form.producer_id,
        form.producer_epoch,
        form.start_offset,
    )


def _line(producer: OpenProducer, *, sees_all: bool) -> OpenTransactionLine:
    state, transactional_id = producer.state, producer.transactional_id
    hangs = True if sees_all else None
    return OpenTransactionLine(
        partition=producer.partition,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        start_offset=state.current_txn_start_offset,
        last_ms=state.last_timestamp,
        transactional_id=transactional_id,
        is_hanging=hangs if transactional_id is None else False,
    )
