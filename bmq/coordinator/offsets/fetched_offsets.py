"""What groups have committed, asked by partitions' owners: OffsetFetch, as a client's, at the groups' coordinators.

So it is answered by the coordinator that proves to be the owner of the group's shard (rule 15), or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

import structlog

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from bmq.protocol.messages.offset_fetch_response import OffsetFetchResponseGroup
from bmq.protocol.request_context import RequestContext, by_itself

PARTITIONS_ASKED_MAX: Final = 1_000
"""Partitions in one request; more are asked for one after the other."""

_log = structlog.get_logger("bmq.coordinator")


class Groups(Protocol):
    """The part of the coordinator, or of the routing to all coordinators, that is used here."""

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any: ...

    def prepare(self, group_id: str, /) -> Awaitable[object]:
        """Load the group's shard, creating the offsets topic if there is none. Raises BmqError."""


def _no_views(topic_id: UUID) -> Sequence[UUID]:
    return ()


class FetchedOffsets:
    """Implements bmq.log.committed_offsets.CommittedOffsets.

    `views(topic_id)`: ids of the views of a topic. A group that reads a view has consumed of the topic what it has committed
    there; one that reads several has consumed what it has committed of all.
    """

    def __init__(self, groups: Groups, views: Callable[[UUID], Sequence[UUID]] = _no_views) -> None:
        self._groups = groups
        self._views = views

    async def committed(
        self, group_ids: Sequence[str], topic_id: UUID, partitions: Sequence[int]
    ) -> Mapping[int, Mapping[str, int]]:
        """As CommittedOffsets.committed."""
        found = await self._committed(group_ids, topic_id, partitions)
        for view_id in self._views(topic_id):
            found = _least(found, await self._committed(group_ids, view_id, partitions))
        return found

    async def _committed(
        self, group_ids: Sequence[str], topic_id: UUID, partitions: Sequence[int]
    ) -> Mapping[int, Mapping[str, int]]:
        found: dict[int, dict[str, int]] = {}
        for start in range(0, len(partitions), PARTITIONS_ASKED_MAX):
            await self._ask(group_ids, topic_id, partitions[start : start + PARTITIONS_ASKED_MAX], found)
        return found

    async def _ask(
        self, group_ids: Sequence[str], topic_id: UUID, partitions: Sequence[int], found: dict[int, dict[str, int]]
    ) -> None:
        answers = await self._fetch(group_ids, topic_id, partitions)
        homeless = [answer.group_id for answer in answers if answer.error_code == ErrorCode.NOT_COORDINATOR]
        if homeless and await self._is_prepared(homeless):
            again = {answer.group_id: answer for answer in await self._fetch(homeless, topic_id, partitions)}
            answers = [again.get(answer.group_id, answer) for answer in answers]
        for answer in answers:
            if answer.error_code != ErrorCode.NONE:
                code = ErrorCode(answer.error_code).name
                _log.warning("committed_offsets_not_known", group=answer.group_id, error=code)
                continue
            for topic in answer.topics:
                for one in topic.partitions:
                    if one.error_code == ErrorCode.NONE:
                        found.setdefault(one.partition_index, {})[answer.group_id] = one.committed_offset

    async def _fetch(
        self, group_ids: Sequence[str], topic_id: UUID, partitions: Sequence[int]
    ) -> Sequence[OffsetFetchResponseGroup]:
        topics = [OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=list(partitions))]
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=topics) for group_id in group_ids]
        response = await self._groups.handle(
            ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=groups), by_itself(ApiKey.OFFSET_FETCH)
        )
        answers: Sequence[OffsetFetchResponseGroup] = response.groups
        return answers

    async def _is_prepared(self, group_ids: Sequence[str]) -> bool:
        """Without an offsets topic nobody can say that a group has committed nothing: have it made, as clients do."""
        try:
            for group_id in group_ids:
                await self._groups.prepare(group_id)
        except BmqError as error:
            _log.warning("committed_offsets_not_known", group=group_ids[0], error=str(error))
            return False
        return True


def _least(
    one: Mapping[int, Mapping[str, int]], other: Mapping[int, Mapping[str, int]]
) -> Mapping[int, Mapping[str, int]]:
    """The lower offset of the two where both are committed; a group that is not known in one is left out."""
    return {
        number: {
            group: _lower(offset, other[number][group]) for group, offset in committed.items() if group in other[number]
        }
        for number, committed in one.items()
        if number in other
    }


def _lower(one: int, other: int) -> int:
    """A negative offset is none."""
    return min(one, other) if min(one, other) >= 0 else max(one, other)
