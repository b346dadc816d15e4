"""Swimlanes of a group: from which offset to which each lane was taken, and why a lane is not taken."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import UnknownSubject
from bmq.admin.rest.authorization import sees_topic
from bmq.admin.rest.parameters import NUMBER, GroupName
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.view_pages import HEADERS_MAX, HeaderForm, TopicField
from bmq.admin.rest.views import at_ms
from bmq.log.lanes.explanation import LaneReader, ReadTopic, explained
from bmq.log.lanes.intervals import NO_END, Interval
from bmq.log.lanes.names import LaneRefused, check_base
from bmq.log.lanes.record_lane import DEFAULT_HEADER
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.lane_messages import LaneListRequest, LaneListResponse, ListedInterval

LANES_MAX: Final = 10_000
ANSWER_WAIT_S: Final = 12.0
ASKED_MAX: Final = 2
"""Requests that ask coordinators at the same time; others wait."""


class LaneIntervalView(BaseModel):
    """Offsets `start` to `end` in which the lane is taken; `end` is null while it is. The lane's group has had those below `kept`. Of the
    others `copied_records` are in the topic for copies, all up to the offset `copied`. `waits`: why copies, or the end, wait; null: they do not.
    """

    topic: str
    partition: int
    lane: str
    opened: datetime
    start: int
    end: int | None
    kept: int | None
    copied: int | None
    copied_records: int
    waits: str | None


class UntakenLaneView(BaseModel):
    """`reason`: why the base group gets the records of the lane although its group fetches."""

    topic: str
    partition: int
    lane: str
    reason: str


class GroupLanesView(BaseModel):
    """`count`: of all intervals, also of those behind `limit`."""

    group: str
    count: int
    intervals: list[LaneIntervalView]
    untaken: list[UntakenLaneView]


class LaneRecordForm(BaseModel):
    """A record of a topic. `offset`: where it is; null: it would be the next one."""

    model_config = ConfigDict(extra="forbid")

    topic: TopicField
    partition: Annotated[int, Field(ge=0, le=2**31 - 1), NUMBER] = 0
    offset: Annotated[int | None, Field(ge=0, le=2**63 - 1), NUMBER] = None
    headers: Annotated[list[HeaderForm], Field(max_length=HEADERS_MAX)] = []


class LaneExplanationView(BaseModel):
    """The group that gets the record, in which topic, and why. `lane`: of the record; null: none. `reader`: "copy" for the base group, which
    gets a copy of what a lane left over.
    """

    lane: str | None
    reader: LaneReader
    group: str
    topic: str
    why: str


def lane_pages(sources: RestSources) -> APIRouter:
    """What any node says about lanes, after the coordinator of the base group."""
    pages = APIRouter()
    slots = asyncio.Semaphore(ASKED_MAX)

    async def listed(group: str) -> LaneListResponse:
        lanes = sources.lanes()
        if lanes is None:
            raise ProblemError(503, "this node does not serve yet; ask again in a moment")
        try:
            async with asyncio.timeout(ANSWER_WAIT_S), slots:
                found = await lanes.list(LaneListRequest(group_id=group))
        except BmqError as error:
            raise ProblemError(503, str(error) or error.code.name) from error
        except TimeoutError:
            raise ProblemError(504, f"the lanes were not listed within {ANSWER_WAIT_S:g} s") from None
        if found.error_code:
            raise ProblemError(503, found.error_message or ErrorCode(found.error_code).name)
        return found

    @pages.get("/v1/groups/{group:path}/lanes", responses=errors(404, 422, 503, 504))
    async def lanes(
        request: Request, group: GroupName, limit: Annotated[int, Query(ge=1, le=LANES_MAX)] = 1_000
    ) -> GroupLanesView:
        """The lanes of a base group, by topic, partition and offset; those of topics that may not be described are left out."""
        found = await listed(group)
        by_id = sources.image().topics_by_id
        names = {topic_id: topic.name for topic_id, topic in by_id.items() if sees_topic(request.scope, topic.name)}
        intervals = [one for one in found.intervals if one.topic_id in names]
        intervals.sort(key=lambda one: (names[one.topic_id], one.partition, one.start, one.lane))
        return GroupLanesView(
            group=group,
            count=len(intervals),
            intervals=[_view(names[one.topic_id], one) for one in intervals[:limit]],
            untaken=[
                UntakenLaneView(topic=names[one.topic_id], partition=one.partition, lane=one.lane, reason=one.reason)
                for one in found.untaken
                if one.topic_id in names
            ][:limit],
        )

    @pages.post("/v1/groups/{group:path}/lanes/explain", responses=errors(400, 404, 413, 422, 503, 504))
    async def explain(request: Request, group: GroupName, form: LaneRecordForm) -> LaneExplanationView:
        """Which group gets a record with these headers: the base group, or that of its lane."""
        try:
            check_base(group)
        except LaneRefused as error:
            raise ProblemError(422, f"path.group: {error}") from error
        topic = sources.image().topics.get(form.topic) if sees_topic(request.scope, form.topic) else None
        if topic is None or topic.view is not None or form.partition >= len(topic.partitions):
            raise UnknownSubject(f"there is no partition {form.partition} of a topic {form.topic} with a log")
        found = await listed(group)
        place = (topic.topic_id, form.partition)
        read = ReadTopic(
            group,
            topic.name,
            [
                Interval(one.lane, one.start, one.end, one.kept)
                for one in found.intervals
                if (one.topic_id, one.partition) == place
            ],
            {one.lane: one.reason for one in found.untaken if (one.topic_id, one.partition) == place},
        )
        headers = [(one.name.encode(), None if one.value is None else one.value.encode()) for one in form.headers]
        said = explained(read, headers, form.offset, DEFAULT_HEADER.encode())
        return LaneExplanationView(
            lane=said.lane or None, reader=said.reader, group=said.group, topic=said.topic, why=said.why
        )

    return pages


def _view(topic: str, one: ListedInterval) -> LaneIntervalView:
    is_open = one.end == NO_END
    return LaneIntervalView(
        topic=topic,
        partition=one.partition,
        lane=one.lane,
        opened=at_ms(one.opened_ms),
        start=one.start,
        end=None if is_open else one.end,
        kept=None if is_open else one.kept,
        copied=None if is_open else one.copied,
        copied_records=one.copied_records,
        waits=one.waits or None,
    )
