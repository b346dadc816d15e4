"""All groups of the cluster, as one proxy serves them (shard_routing.py); shards: partitions of the offsets topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import structlog

from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.offsets.commit_run import CommitDone
from bmq.dataclass import dataclass
from bmq.log.store import Buffer
from bmq.metadata.image import OFFSETS_TOPIC_NAME, MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import RequestHeader, encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_commit import PlainCommit
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.list_groups_response import ListGroupsResponse
from bmq.protocol.request_context import RequestContext
from bmq.routing.group_requests import Commit, TransactionalCommit, group_request
from bmq.routing.lanes import RoutedLanes
from bmq.routing.shard_requests import MOVING
from bmq.routing.shard_routing import Listing, NodeRoutes, ShardRouting, ShardRoutingConfig

_log = structlog.get_logger("bmq.routing")


@dataclass(frozen=True, slots=True)
class RoutedGroupsConfig(ShardRoutingConfig):
    """How long requests wait for a group's shard that is moving."""


class RoutedGroups(ShardRouting):
    """Implements bmq.proxy.services.Groups. `local`: the coordinator of the shards this process owns, if it has one.

    `lanes`: calls about the lanes of groups.
    """

    def __init__(
        self,
        local: GroupCoordinator | None,
        routes: NodeRoutes,
        config: RoutedGroupsConfig,
    ) -> None:
        super().__init__(OFFSETS_TOPIC_NAME, "group", local, routes, config)
        self.lanes = RoutedLanes(local, routes, config)
        self._own = local
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._begun: dict[tuple[str, str], asyncio.Future[None] | None] = {}  # plain commits under way: their waiters

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """See ShardRouting."""
        super().image_changed(old, new)
        self.lanes.image_changed(old, new)

    def changed(self) -> None:
        """See ShardRouting."""
        super().changed()
        self.lanes.changed()

    def end_waits(self) -> None:
        """See ShardRouting."""
        super().end_waits()
        self.lanes.end_waits()

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """The answers of the groups' coordinators; errors are in the response."""
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
        """The answer of this process's coordinator; None when another node owns the group, or the request is old."""
        if self._own is None or self._stalls.now_s() - received_s > self._config.request_age_max_ms / 1000:
            return None
        return self._own.repeated_heartbeat(frame, header, context, received_s)

    async def _commit(self, asked: Commit | TransactionalCommit, context: RequestContext) -> Any:
        """Send a committer's commits one after another, so that a retried one does not undo a later one."""
        group_id = asked.request.group_id
        context = self._dated(context)  # its age includes the wait for its turn
        try:
            async with self._turn(group_id, asked.committer):
                return await self._perform(asked, context)
        except TimeoutError:
            return asked.refusal(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def commit_at_once(
        self, asked: PlainCommit, context: RequestContext, received_s: float, done: CommitDone, /
    ) -> bool:
        """Implements bmq.proxy.services.Groups. Only taken while no other commit of this committer is under way or
        waits.

        If the group turns out to be moving, the commit continues as an ordinary one, which is retried.
        """
        key = (asked.group_id, asked.member_id)
        if self._own is None or context.peer is None or key in self._turns or key in self._begun:
            return False
        if self._owner(asked.group_id) != self._node_id or self._stalls.is_stalled():
            return False
        if self._stalls.now_s() - received_s > self._config.request_age_max_ms / 1000:
            return False
        peer = context.peer

        def ended(error: ErrorCode, body: bytes) -> None:
            if error in MOVING:
                peer.begin(self._go_on(asked, replace(context, received_s=received_s), done), partial(self._end, key))
            else:
                self._end(key)
                done(error, body)

        self._begun[key] = None
        if self._own.commit_at_once(asked, context, received_s, ended):
            return True
        self._end(key)
        return False

    async def _go_on(self, asked: PlainCommit, context: RequestContext, done: CommitDone) -> None:
        """Retry a plain commit whose first try failed."""
        commit = Commit(asked.request(), asked.api_version)
        try:
            response = await self._perform(commit, context)
        except Exception as error:  # noqa: BLE001 the client must get an answer
            _log.error("commit_not_repeated", group=asked.group_id, error=repr(error), exc_info=error)
            response = commit.refusal(asked.group_id, ErrorCode.UNKNOWN_SERVER_ERROR)
        done(ErrorCode(commit.code(response)), encode("response", ApiKey.OFFSET_COMMIT, asked.api_version, response))

    def _end(self, key: tuple[str, str]) -> None:
        waiting = self._begun.pop(key)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    async def _wait_for_begun(self, key: tuple[str, str]) -> None:
        while key in self._begun:
            waiting = self._begun[key]
            if waiting is None or waiting.done():  # its waiter was cancelled
                waiting = self._begun[key] = self._loop.create_future()
            await waiting

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
        """A member's turn to commit, one at a time. Raises TimeoutError when earlier commits took too long."""
        key = (group_id, member_id)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn()
        turn.users += 1
        try:
            async with asyncio.timeout(self._config.move_wait_ms / 1000) as limit:
                await turn.lock.acquire()
            try:
                if key in self._begun:
                    async with asyncio.timeout_at(limit.when()):
                        await self._wait_for_begun(key)
                yield
            finally:
                turn.lock.release()
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]


class _Turn:
    """The commit lock of one committer, and how many hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0
