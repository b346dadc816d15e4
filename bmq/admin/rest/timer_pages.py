"""Records of topics with delay that wait for their due time: how many, which, and cancelling one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.delayed_records import DelayedRecords, PartitionDelays
from bmq.admin.orders import OrderRefused, partition_of, topic_of
from bmq.admin.rest.parameters import PartitionNumber, TopicName
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import at_ms
from bmq.log.timers.announcements import START, Position
from bmq.log.timers.delayed_page import PAGE_MAX
from bmq.log.timers.due_headers import TIME_MS_MAX
from bmq.protocol.errors import KafkaError

PARTITIONS_MAX: Final = 1_000
ASKED_MAX: Final = 4
"""Requests that ask owners at the same time; others wait."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET_MAX: Final = 2**62
_ID: Final = "^[0-9]{1,19},[0-9]{1,19}$"
_TOO_LATE: Final = "the owner of the partition did not answer in time; ask again in a moment"
TimerId = Annotated[str, Field(pattern=_ID, description="As the list has it: the value of the header bmq-cancel")]


class TimerView(BaseModel):
    """`id`: what the header `bmq-cancel` of a record has to have. `offset`: the one that the producer was told."""

    id: str
    offset: int
    due: datetime


class PartitionTimersView(BaseModel):
    """`pending`: records that wait. `next_due`: of the first of them, null where none waits; `overdue_s`: for how long it
    has been due, 0 if it is not. `problem`: why the owner was not heard; the others are null then.
    """

    partition: int
    pending: int | None
    next_due: datetime | None
    overdue_s: float | None
    problem: str | None


class TopicTimersPage(BaseModel):
    """`next_skip`: what to ask for next as `skip`; null on the last page."""

    topic: str
    is_delay_enabled: bool
    partitions: list[PartitionTimersView]
    next_skip: int | None


class TimersPage(BaseModel):
    """Records in the order in which they are due. `next_after`: what to ask for next as `after`; null on the last page."""

    topic: str
    partition: int
    pending: int
    next_due: datetime | None
    overdue_s: float
    timers: list[TimerView]
    next_after: str | None


class CancelForm(BaseModel):
    """Which record is not to be delivered."""

    model_config = ConfigDict(extra="forbid")

    id: TimerId


class CancelledView(BaseModel):
    """The record is not delivered; it was cancelled now or before."""

    topic: str
    partition: int
    id: str


def timer_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()
    asked = partial(_asked, sources, asyncio.Semaphore(ASKED_MAX))

    @pages.get("/v1/topics/{name}/timers", responses=errors(404, 422, 503, 504))
    async def topic_timers(
        name: TopicName,
        skip: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=PARTITIONS_MAX)] = 200,
    ) -> TopicTimersPage:
        """How many delayed records wait in each partition, and when the next one is due."""
        topic = topic_of(sources.image(), name)
        async with asked() as delayed:
            found = await delayed.summaries(topic, topic.partitions[skip : skip + limit])
            now_ms = delayed.now_ms()
        return TopicTimersPage(
            topic=name,
            is_delay_enabled=topic.log_config.is_delay_enabled,
            partitions=[_partition(one, now_ms) for one in found],
            next_skip=skip + limit if skip + limit < len(topic.partitions) else None,
        )

    @pages.get("/v1/topics/{name}/partitions/{number}/timers", responses=errors(404, 422, 503, 504))
    async def partition_timers(
        name: TopicName,
        number: PartitionNumber,
        after: Annotated[str, Query(pattern=_ID, description="Only records behind this one: its `id`")] | None = None,
        from_time: Annotated[datetime | None, Query(description="Only records that are due then or later")] = None,
        limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 100,
    ) -> TimersPage:
        """The records that wait in a partition, in the order in which they are due."""
        topic = topic_of(sources.image(), name)
        partition_of(topic, number)
        place = START if from_time is None else Position(_milliseconds(from_time), -1)
        if after is not None:
            due_ms, offset = _position(after)
            place = max(place, Position(min(due_ms, TIME_MS_MAX), min(offset, _OFFSET_MAX)))
        async with asked() as delayed:
            page = await delayed.page(topic, number, place, limit)
            now_ms = delayed.now_ms()
        last = page.records[-1] if len(page.records) == limit else None
        return TimersPage(
            topic=name,
            partition=number,
            pending=page.pending,
            next_due=_due(page.next_due_ms),
            overdue_s=_overdue_s(page.next_due_ms, now_ms),
            timers=[TimerView(id=_id(one), offset=one.offset, due=at_ms(one.due_ms)) for one in page.records],
            next_after=None if last is None else _id(last),
        )

    @pages.post("/v1/topics/{name}/partitions/{number}/timers/cancel", responses=errors(400, 404, 409, 422, 503, 504))
    async def cancel(name: TopicName, number: PartitionNumber, form: CancelForm) -> CancelledView:
        """Cancel a delayed record, as a record with the header `bmq-cancel` does. It may be repeated."""
        topic = topic_of(sources.image(), name)
        partition_of(topic, number)
        target = _position(form.id)
        if target.due_ms > TIME_MS_MAX or target.offset > _OFFSET_MAX:
            raise OrderRefused(f"no record can have the id {form.id}")
        async with asked() as delayed:
            await delayed.cancel(topic, number, target)
        return CancelledView(topic=name, partition=number, id=_id(target))

    return pages


@asynccontextmanager
async def _asked(sources: RestSources, slots: asyncio.Semaphore) -> AsyncIterator[DelayedRecords]:
    """Raises ProblemError when this node does not serve, or an owner is not there."""
    delayed = sources.delayed()
    if delayed is None:
        raise ProblemError(503, "this node does not serve yet; ask again in a moment")
    try:
        async with slots:
            yield delayed
    except KafkaError as error:
        raise ProblemError(503, str(error) or error.code.name) from error
    except TimeoutError:
        raise ProblemError(504, _TOO_LATE) from None


def _partition(one: PartitionDelays, now_ms: int) -> PartitionTimersView:
    page, is_known = one.page, one.problem is None
    return PartitionTimersView(
        partition=one.partition,
        pending=page.pending if is_known else None,
        next_due=_due(page.next_due_ms),
        overdue_s=_overdue_s(page.next_due_ms, now_ms) if is_known else None,
        problem=one.problem,
    )


def _position(timer_id: str) -> Position:
    offset, _, due_ms = timer_id.partition(",")
    return Position(int(due_ms), int(offset))


def _id(position: Position) -> str:
    return f"{position.offset},{position.due_ms}"


def _due(due_ms: int | None) -> datetime | None:
    return None if due_ms is None else at_ms(due_ms)


def _overdue_s(due_ms: int | None, now_ms: int) -> float:
    return 0.0 if due_ms is None else max(0.0, (now_ms - due_ms) / 1000)


def _milliseconds(at: datetime) -> int:
    """Without a zone it is UTC."""
    zoned = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return max(-1, min((zoned - _EPOCH) // timedelta(milliseconds=1), TIME_MS_MAX))
