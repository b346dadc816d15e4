"""The groups of the cluster; and why members of one get nothing: each of its partitions with its reasons."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel

from bmq.admin.group_explainer import GroupExplainer, GroupMember, KnownGroup, PartitionExplanation
from bmq.admin.group_reasons import ReasonCode
from bmq.admin.rest.authorization import sees_cluster, sees_group, sees_topic
from bmq.admin.rest.parameters import GroupName, TopicPrefix
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.views import at_ms
from bmq.protocol.errors import KafkaError

PARTITIONS_MAX: Final = 1_000
ANSWER_WAIT_S: Final = 12.0
EXPLANATIONS_MAX: Final = 2
"""Explanations and lists at the same time; others wait."""
GROUPS_MAX: Final = 10_000
GROUP_NAME_MAX: Final = 1_000
GroupPrefix = Annotated[str, Query(max_length=GROUP_NAME_MAX)]


class GroupKind(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupLineView(BaseModel):
    """`kind`: classic, consumer, share or streams. `protocol_type`: what a classic group is for, such as connect."""

    group: str
    kind: str
    state: str
    protocol_type: str


class GroupPage(BaseModel):
    """`next_after`: what to ask for next as `after`; null on the last page."""

    groups: list[GroupLineView]
    next_after: str | None


class GroupMemberView(BaseModel):
    """`partitions`: how many it has."""

    member_id: str
    client_id: str
    host: str
    partitions: int


class HolderView(BaseModel):
    """A member with `records` locked records of `first` to `last`; the last lock ends at `until`."""

    member_id: str
    records: int
    first: int
    last: int
    until: datetime


class OpenTransactionView(BaseModel):
    """It holds the last stable offset. `transactional_id`, `since`: null where no coordinator knows them."""

    producer_id: int
    first_offset: int
    transactional_id: str | None
    since: datetime | None


class ReasonView(BaseModel):
    """`code`: a stable word; `text`: a sentence."""

    code: ReasonCode
    text: str


class GroupPartitionView(BaseModel):
    """`reasons`: the first one is to be looked at first. `next_offset`: the next record to be given, or the committed
    offset. Offsets and lag are null where they are not known. `locked`, `locks_max`, `holders`: of a share group, as
    `delayed`: records in back-off, the last of them until `delayed_until`; and `archiving`: records whose dead letters
    wait from `archiving_first` on, because of `archiving_why` (null: they are being written).
    """

    topic: str
    partition: int
    reasons: list[ReasonView]
    members: list[str]
    next_offset: int | None
    start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    lag: int | None
    locked: int | None
    locks_max: int | None
    delayed: int | None
    delayed_until: datetime | None
    archiving: int | None
    archiving_first: int | None
    archiving_why: str | None
    holders: list[HolderView]
    transaction: OpenTransactionView | None


class GroupExplanationView(BaseModel):
    """`kind`: share, consumer or classic. `subscription`: of a share group. `partition_count`: of all its partitions;
    `next_skip`: what to ask for next as `skip`; null on the last page.
    """

    group: str
    kind: str
    state: str
    subscription: str | None
    is_read_committed: bool
    members: list[GroupMemberView]
    partition_count: int
    partitions: list[GroupPartitionView]
    next_skip: int | None


def group_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()
    slots = asyncio.Semaphore(EXPLANATIONS_MAX)

    def explainer_here() -> GroupExplainer:
        explainer = sources.groups()
        if explainer is None:
            raise ProblemError(503, "this node does not serve yet; ask again in a moment")
        return explainer

    @asynccontextmanager
    async def answered(too_late: str) -> AsyncIterator[None]:
        """Raises ProblemError when a coordinator is not there, or takes too long."""
        try:
            async with asyncio.timeout(ANSWER_WAIT_S), slots:
                yield
        except KafkaError as error:
            raise ProblemError(503, str(error) or error.code.name) from error
        except TimeoutError:
            raise ProblemError(504, f"{too_late} within {ANSWER_WAIT_S:g} s") from None

    @pages.get("/v1/groups", responses=errors(422, 503, 504))
    async def groups(
        request: Request,
        prefix: GroupPrefix = "",
        after: Annotated[GroupPrefix, Query(description="Only names that follow this one")] = "",
        kind: Annotated[GroupKind | None, Query(description="Only of this kind")] = None,
        limit: Annotated[int, Query(ge=1, le=GROUPS_MAX)] = 100,
    ) -> GroupPage:
        """Groups of all kinds in the order of their names, page by page."""
        explainer = explainer_here()
        async with answered("the groups were not listed"):
            listed = await explainer.listed()
        sees_all = sees_cluster(request.scope)
        wanted = (
            one
            for one in listed
            if one.group_id > after
            and one.group_id.startswith(prefix)
            and kind in (None, one.kind)
            and (sees_all or sees_group(request.scope, one.group_id))
        )
        found = heapq.nsmallest(limit + 1, wanted, key=lambda one: one.group_id)
        shown = found[:limit]
        return GroupPage(
            groups=[
                GroupLineView(group=one.group_id, kind=one.kind, state=one.state, protocol_type=one.protocol_type)
                for one in shown
            ],
            next_after=shown[-1].group_id if len(found) > limit else None,
        )

    @pages.get("/v1/groups/{group:path}/explain", responses=errors(404, 422, 503, 504))
    async def explain(
        request: Request,
        group: GroupName,
        topic: Annotated[TopicPrefix | None, Query(min_length=1, description="Only of this topic")] = None,
        skip: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        limit: Annotated[int, Query(ge=1, le=PARTITIONS_MAX)] = 200,
    ) -> GroupExplanationView:
        """Why nothing is delivered: no members, nothing new, all locked and by whom, an open transaction, an owner away."""
        explainer = explainer_here()
        async with answered("the group was not explained"):
            known = await explainer.group(group)
            places = [
                place
                for place in known.places
                if (topic is None or place[0] == topic) and sees_topic(request.scope, place[0])
            ]
            shown = places[skip : skip + limit]
            partitions = await explainer.explain(known, shown)
        return _view(
            known, partitions, len(places), skip + limit if skip + limit < len(places) else None, explainer.now_ms()
        )

    return pages


def _view(
    group: KnownGroup, partitions: list[PartitionExplanation], count: int, next_skip: int | None, now_ms: int
) -> GroupExplanationView:
    return GroupExplanationView(
        group=group.group_id,
        kind=group.kind,
        state=group.state,
        subscription=None if group.subscription is None else group.subscription.value,
        is_read_committed=group.is_read_committed,
        members=[_member(one) for one in group.members],
        partition_count=count,
        partitions=[_partition(one, now_ms) for one in partitions],
        next_skip=next_skip,
    )


def _member(member: GroupMember) -> GroupMemberView:
    return GroupMemberView(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.host.removeprefix("/"),
        partitions=len(member.assigned),
    )


def _partition(one: PartitionExplanation, now_ms: int) -> GroupPartitionView:
    log, state, transaction = one.log, one.state, one.log.transaction
    known = state if state is not None and not state.error_code and state.state_epoch >= 0 else None
    return GroupPartitionView(
        topic=one.topic,
        partition=one.partition,
        reasons=[ReasonView(code=reason.code, text=reason.text) for reason in one.reasons],
        members=list(one.members),
        next_offset=_known(one.next_offset),
        start_offset=_known(log.start_offset),
        last_stable_offset=_known(log.last_stable_offset),
        high_watermark=_known(log.high_watermark),
        lag=one.lag,
        locked=None if known is None else known.locked_count,
        locks_max=None if known is None else known.locks_max,
        delayed=None if known is None else known.delayed_count,
        delayed_until=None if known is None or not known.delayed_count else at_ms(now_ms + known.delayed_last_ms),
        archiving=None if known is None else known.archiving_count,
        archiving_first=None if known is None else _known(known.archiving_first),
        archiving_why=None if known is None else known.archiving_why or None,
        holders=[
            HolderView(
                member_id=holder.member_id,
                records=holder.count,
                first=holder.first,
                last=holder.last,
                until=at_ms(now_ms + holder.left_ms),
            )
            for holder in (() if state is None else state.holders)
        ],
        transaction=None
        if transaction is None
        else OpenTransactionView(
            producer_id=transaction.producer_id,
            first_offset=transaction.first_offset,
            transactional_id=transaction.transactional_id,
            since=None if transaction.since_ms is None else at_ms(transaction.since_ms),
        ),
    )


def _known(offset: int) -> int | None:
    return None if offset < 0 else offset
