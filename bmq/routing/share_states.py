"""The state of all share partitions of the cluster, as one node reaches it (shard_routing.py): shards are partitions of
`__share_group_state`. Proxies and group coordinators call it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, cast

from bmq.coordinator.share_state.coordinator import ShareStateCoordinator
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import SHARE_STATE_TOPIC_NAME
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.request_context import RequestContext, by_itself
from bmq.protocol.share_state_messages import (
    AvailablePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcquireRequest,
    ShareAcquireResponse,
    ShareActivateRequest,
    ShareActivateResponse,
    ShareDeleteRequest,
    ShareDeleteResponse,
    ShareExplainRequest,
    ShareExplainResponse,
    ShareInitializeRequest,
    ShareInitializeResponse,
    ShareReleaseRequest,
    ShareReleaseResponse,
    ShareSummaryRequest,
    ShareSummaryResponse,
    ShareWaitRequest,
    ShareWaitResponse,
    state_key,
)
from bmq.routing.shard_requests import MOVING
from bmq.routing.shard_routing import NodeRoutes, ShardRouting, ShardRoutingConfig
from bmq.routing.share_state_requests import ShareStateRequest

STATE_PURPOSE: Final = "share"
WAIT_PURPOSE: Final = "share-wait"
_WAIT_SPARE_MS: Final = 5_000
_AT_ONCE_MAX: Final = 10
"""Partitions whose shards are looked up in one turn of the loop: a long name takes milliseconds."""


class RoutedShareStates(ShardRouting):
    """Implements bmq.proxy.share.states.ShareStates and the group coordinator's ShareStates.

    `local`: the coordinator of the shards this process owns.
    """

    def __init__(
        self,
        local: ShareStateCoordinator | None,
        routes: NodeRoutes,
        config: ShardRoutingConfig,
    ) -> None:
        super().__init__(SHARE_STATE_TOPIC_NAME, "share partition", local, routes, config)

    async def acquire(self, request: ShareAcquireRequest) -> ShareAcquireResponse:
        return cast(ShareAcquireResponse, await self._call(ApiKey.SHARE_ACQUIRE, request))

    async def acknowledge(self, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
        return cast(ShareAcknowledgeResponse, await self._call(ApiKey.SHARE_ACKNOWLEDGE_STATE, request))

    async def release(self, request: ShareReleaseRequest) -> ShareReleaseResponse:
        return cast(ShareReleaseResponse, await self._call(ApiKey.SHARE_RELEASE, request))

    async def initialize(self, request: ShareInitializeRequest) -> ShareInitializeResponse:
        """Creates the topic of the shards if there is none."""
        if request.partitions and not self._has_topic():
            one = request.partitions[0]
            try:
                await self.prepare(state_key(request.group_id, one.topic_id, one.partition))
            except BmqError as error:
                asked = ShareStateRequest(ApiKey.SHARE_INITIALIZE, request)
                refused = [asked.refusal(key, error.code) for key in asked.keys]
                return cast(ShareInitializeResponse, asked.response(refused))
        return cast(ShareInitializeResponse, await self._call(ApiKey.SHARE_INITIALIZE, request))

    async def summarize(self, request: ShareSummaryRequest) -> ShareSummaryResponse:
        return cast(ShareSummaryResponse, await self._call(ApiKey.SHARE_SUMMARY, request))

    async def delete(self, request: ShareDeleteRequest) -> ShareDeleteResponse:
        return cast(ShareDeleteResponse, await self._call(ApiKey.SHARE_DELETE, request))

    async def activate(self, request: ShareActivateRequest) -> ShareActivateResponse:
        return cast(ShareActivateResponse, await self._call(ApiKey.SHARE_ACTIVATE, request))

    async def explain(self, request: ShareExplainRequest) -> ShareExplainResponse:
        return cast(ShareExplainResponse, await self._call(ApiKey.SHARE_EXPLAIN, request))

    async def _call(self, api_key: ApiKey, request: Any) -> Any:
        """Where all shards are here they are asked without more ado; what they refuse because they move goes the long way."""
        if not self._are_all_here(request):
            return await self._perform(ShareStateRequest(api_key, request), by_itself(api_key))
        assert self._local is not None
        answer = await self._local.handle(api_key, request, by_itself(api_key))
        moved = [place for place, part in enumerate(answer.partitions) if part.error_code in MOVING]
        if moved:
            left = ShareStateRequest(
                api_key, replace(request, partitions=[request.partitions[place] for place in moved])
            )
            again = await self._perform(left, by_itself(api_key))
            parts = list(answer.partitions)
            for place, part in zip(moved, again.partitions, strict=True):
                parts[place] = part
            answer = replace(answer, partitions=parts)
        return answer

    def _are_all_here(self, request: Any) -> bool:
        """Whether this node owns all their shards, as far as it knows; False for more than a few."""
        if self._local is None or len(request.partitions) > _AT_ONCE_MAX:
            return False
        group_id, node_id = request.group_id, self._node_id
        return all(
            self._owner(state_key(group_id, one.topic_id, one.partition)) == node_id for one in request.partitions
        )

    def here(self, request: ShareAcquireRequest) -> ShareStateCoordinator | None:
        """What answers the request if this node owns all its shards, as far as it knows."""
        return cast(ShareStateCoordinator, self._local) if self._are_all_here(request) else None

    def place_of(self, group_id: str, topic_partition: TopicPartition) -> int:
        """The node that answers for a share partition now; -1: none."""
        return self._owner(state_key(group_id, *topic_partition))

    async def wait(self, request: ShareWaitRequest) -> ShareWaitResponse:
        """For partitions of one place: until there is news in one of them. Errors count as news."""
        if not request.partitions:
            return ShareWaitResponse()
        first = request.partitions[0]
        owner = self._owner(state_key(first.group_id, first.topic_id, first.partition))
        context = self._dated(by_itself(ApiKey.SHARE_WAIT))
        try:
            answer = await self._send(owner, ApiKey.SHARE_WAIT, request, context, may_wait=True)
        except BmqError:
            news = [
                AvailablePartition(
                    group_id=part.group_id,
                    topic_id=part.topic_id,
                    partition=part.partition,
                    error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
                )
                for part in request.partitions
            ]
            return ShareWaitResponse(partitions=news)
        return cast(ShareWaitResponse, answer)

    async def _send_over(
        self, owner: int, api_key: ApiKey, message: Any, context: RequestContext, *, may_wait: bool, leader_epoch: int
    ) -> Any:
        """These calls go to the other node as they are, without an Envelope: no client has sent them."""
        purpose = WAIT_PURPOSE if may_wait else STATE_PURPOSE
        await self._reach(owner, purpose)
        self._require_young(context, may_wait)
        timeout_s = (message.max_wait_ms + _WAIT_SPARE_MS if may_wait else self._config.answer_wait_ms) / 1000
        return await self._links.call(owner, api_key, message, timeout_s=timeout_s, purpose=purpose)
