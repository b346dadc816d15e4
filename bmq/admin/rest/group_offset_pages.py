"""A group's offsets are moved, with a plan first; and a group is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.group_explainer import KnownGroup
from bmq.admin.orders import partition_of, topic_of
from bmq.admin.rest.parameters import NUMBER, DryRun, GroupName
from bmq.admin.rest.partition_offsets import EARLIEST, LATEST, offsets_of
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.user_requests import UserRequests, check, user_requests
from bmq.protocol.apis import ApiKey
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.alter_share_group_offsets_request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from bmq.protocol.messages.delete_groups_request import DeleteGroupsRequest
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

PARTITIONS_MAX: Final = 10_000
GROUP_WAIT_S: Final = 12.0
_INT64_MAX: Final = 2**63 - 1
_SHARE: Final = "share"
_NO_GENERATION: Final = -1
PartitionList = Annotated[
    list[Annotated[int, Field(ge=0, le=2**31 - 1)]], Field(min_length=1, max_length=PARTITIONS_MAX)
]


class To(StrEnum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"


class ResetForm(BaseModel):
    """`offset`: with `to` offset; it is kept within the partition. `time_ms`: with `to` time. `partitions` null: all."""

    model_config = ConfigDict(extra="forbid")

    topic: Annotated[str, Field(pattern="^[a-zA-Z0-9._-]{1,249}$", max_length=249)]
    to: To
    offset: Annotated[int, Field(ge=0, le=_INT64_MAX), NUMBER] = 0
    time_ms: Annotated[int, Field(ge=0, le=2**53), NUMBER] = 0
    partitions: PartitionList | None = None


class OffsetMove(BaseModel):
    """`before`: the committed offset, null where there is none or it is not known."""

    partition: int
    before: int | None
    after: int


class ResetView(BaseModel):
    """The changed offsets of a group; with `dry_run` those that would change."""

    group: str
    topic: str
    moves: list[OffsetMove]


class GroupDeletedView(BaseModel):
    summary: str


def group_offset_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    async def known_group(group: str) -> KnownGroup:
        """Raises ProblemError, UnknownSubject."""
        explainer = sources.groups()
        if explainer is None:
            raise ProblemError(503, "this node does not serve yet; ask again in a moment")
        try:
            async with asyncio.timeout(GROUP_WAIT_S):
                return await explainer.group(group)
        except KafkaError as error:
            raise ProblemError(503, str(error)) from error
        except TimeoutError:
            raise ProblemError(504, f"the group's coordinator did not answer within {GROUP_WAIT_S:g} s") from None

    @pages.post("/v1/groups/{group:path}/offsets", responses=errors(400, 404, 409, 413, 422, 503, 504))
    async def reset(request: Request, group: GroupName, form: ResetForm, dry_run: DryRun = False) -> ResetView:
        """Move a group's offsets of one topic. The group must have no members, as they would go on from their own offsets."""
        topic = topic_of(sources.image(), form.topic)
        numbers = [one.partition for one in topic.partitions]
        if form.partitions is not None:
            numbers = [partition_of(topic, number).partition for number in dict.fromkeys(form.partitions)]
        known = await known_group(group)
        if known.members and not dry_run:
            raise ProblemError(
                409, f"group {group} has {len(known.members)} members: stop them first, then move its offsets"
            )
        requests = user_requests(sources, request)
        after = await _targets(requests, form, numbers)
        committed = known.committed or {}
        moves = [
            OffsetMove(partition=number, before=_before(committed.get((form.topic, number))), after=after[number])
            for number in numbers
        ]
        if not dry_run:
            change = _alter_share_group if known.kind == _SHARE else _commit
            await change(requests, group, form.topic, after)
        return ResetView(group=group, topic=form.topic, moves=moves)

    @pages.delete("/v1/groups/{group:path}", responses=errors(404, 409, 422, 503, 504))
    async def delete(request: Request, group: GroupName) -> GroupDeletedView:
        """Delete a group without members, and all its offsets. It cannot be undone."""
        answer = await user_requests(sources, request).ask(
            ApiKey.DELETE_GROUPS, DeleteGroupsRequest(groups_names=[group])
        )
        (result,) = answer.results
        check(result.error_code, result.error_message)
        return GroupDeletedView(summary=f"Group {group} is deleted.")

    return pages


def _before(offset: int | None) -> int | None:
    return None if offset is None or offset < 0 else offset


async def _targets(requests: UserRequests, form: ResetForm, numbers: Sequence[int]) -> dict[int, int]:
    """The new offset of each partition. Raises ProblemError."""
    ends = await offsets_of(requests, form.topic, numbers, LATEST)
    if form.to is To.LATEST:
        return _known(ends)
    if form.to is To.TIME:
        last = _known(ends)
        found = _known(await offsets_of(requests, form.topic, numbers, form.time_ms))
        return {number: last[number] if offset < 0 else offset for number, offset in found.items()}
    first = _known(await offsets_of(requests, form.topic, numbers, EARLIEST))
    if form.to is To.EARLIEST:
        return first
    last = _known(ends)
    return {number: min(max(form.offset, first[number]), last[number]) for number in numbers}


def _known(found: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Raises ProblemError when an owner did not answer: half of a reset would be worse than none."""
    for number, (_, code) in found.items():
        check(
            code,
            f"the owner of partition {number} does not tell its offsets now; ask again in a moment" if code else None,
        )
    return {number: offset for number, (offset, _) in found.items()}


async def _commit(requests: UserRequests, group: str, topic: str, after: Mapping[int, int]) -> None:
    """Raises ProblemError."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=offset, committed_metadata="")
        for number, offset in after.items()
    ]
    asked = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    answer = await requests.ask(ApiKey.OFFSET_COMMIT, asked)
    for one in (one for each in answer.topics for one in each.partitions):
        check(one.error_code)


async def _alter_share_group(requests: UserRequests, group: str, topic: str, after: Mapping[int, int]) -> None:
    """Raises ProblemError."""
    partitions = [
        AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=offset)
        for number, offset in after.items()
    ]
    asked = AlterShareGroupOffsetsRequest(
        group_id=group, topics=[AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)]
    )
    answer = await requests.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, asked)
    check(answer.error_code, answer.error_message)
    for one in (one for each in answer.responses for one in each.partitions):
        check(one.error_code, one.error_message)
