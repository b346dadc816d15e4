"""All groups of the cluster as one proxy serves them (shard_routing.py): their shards are partitions of the offsets topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from bmq.coordinator.coordinator import GroupCoordinator
from bmq.log.store import Buffer
from bmq.metadata.image import OFFSETS_TOPIC_NAME, MetadataImage
from bmq.peers.links import Links
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.list_groups_response import ListGroupsResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.stall_watch import StallWatch
from bmq.routing.group_requests import Commit, TransactionalCommit, group_request
from bmq.routing.shard_routing import Listing, ShardRouting, ShardRoutingConfig, TopicMaker


@dataclass(frozen=True, slots=True)
class RoutedGroupsConfig(ShardRoutingConfig):
    """How long a group's shard on the move is waited for."""


class RoutedGroups(ShardRouting):
    """Implements bmq.proxy.services.Groups. `local`: the coordinator of the shards this process owns, if it has one."""

    def __init__(
        self,
        node_id: int,
        local: GroupCoordinator | None,
        links: Links,
        image: Callable[[], MetadataImage],
        controller: TopicMaker,
        config: RoutedGroupsConfig,
        *,
        random: Random | None = None,
        stalls: StallWatch | None = None,
    ) -> None:
        super().__init__(
            OFFSETS_TOPIC_NAME, "group", node_id, local, links, image, controller, config, random=random, stalls=stalls
        )
        self._groups = local
        self._turns: dict[tuple[str, str], _Turn] = {}

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """What the groups' coordinators answer; errors are in the response."""
        match api_key:
            case ApiKey.LIST_GROUPS:
                return await self._list_groups(request, context)
            case ApiKey.OFFSET_COMMIT:
                return await self._commit(Commit(request, context.api_version), context)
            case ApiKey.TXN_OFFSET_COMMIT:
                return await self._commit(TransactionalCommit(request, context.api_version), context)
        return await self._perform(group_request(api_key, request, context.api_version), context)

    def repeated_heartbeat(
        self, frame: Buffer, header: RequestHeader, context: RequestContext, received_s: float
    ) -> bytes | None:
        """As the coordinator of this process says; None too where another's has to be asked, or the request is old."""
        if self._groups is None or self._loop.time() - received_s > self._config.request_age_max_ms / 1000:
            return None
        return self._groups.repeated_heartbeat(frame, header, context, received_s)

    async def _commit(self, asked: Commit, context: RequestContext) -> Any:
        """A committer's commits go one after another: one that is tried again must not undo a later one."""
        group_id = asked.request.group_id
        context = self._dated(context)  # waiting for its turn counts
        try:
            async with self._turn(group_id, asked.committer):
                return await self._perform(asked, context)
        except TimeoutError:
            return asked.refusal(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """ListGroups 0-5."""
        listed = await self._list(
            ApiKey.LIST_GROUPS,
            request,
            context,
            lambda answer: Listing(answer.error_code, answer.groups),
            lambda group: group.group_id,
        )
        return ListGroupsResponse(error_code=listed.error, groups=listed.items)

    @asynccontextmanager
    async def _turn(self, group_id: str, member_id: str) -> AsyncIterator[None]:
        """One at a time for each member. Raises TimeoutError when those before took too long."""
        key = (group_id, member_id)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn()
        turn.users += 1
        try:
            async with asyncio.timeout(self._config.move_wait_ms / 1000):
                await turn.lock.acquire()
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]


class _Turn:
    """Whose turn it is to commit, and how many want one."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
