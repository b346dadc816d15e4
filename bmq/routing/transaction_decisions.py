"""Decisions about open transactions of all transactional ids of the cluster, as one node passes them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.metadata.image import TRANSACTIONS_TOPIC_NAME
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.request_context import RequestContext, by_itself
from bmq.protocol.transaction_decisions import TransactionDecideRequest, TransactionDecideResponse
from bmq.routing.shard_requests import ShardRequest
from bmq.routing.shard_routing import NodeRoutes, ShardRouting, ShardRoutingConfig

PURPOSE: Final = "decisions"


class _Decide(ShardRequest):
    api_key = ApiKey.TRANSACTION_DECIDE

    @property
    def keys(self) -> Sequence[str]:
        return (self.request.transactional_id,)

    def refusal(self, key: str, code: ErrorCode) -> TransactionDecideResponse:
        return TransactionDecideResponse(error_code=code)


class RoutedDecisions(ShardRouting):
    """Implements bmq.proxy.transaction_answers.TransactionDecisions."""

    def __init__(self, local: TransactionCoordinator | None, routes: NodeRoutes, config: ShardRoutingConfig) -> None:
        super().__init__(TRANSACTIONS_TOPIC_NAME, "transactional id", local, routes, config)

    async def decide(self, request: TransactionDecideRequest) -> TransactionDecideResponse:
        answer = await self._perform(_Decide(request, api_version=0), by_itself(ApiKey.TRANSACTION_DECIDE))
        return cast(TransactionDecideResponse, answer)

    async def _send_over(
        self, owner: int, api_key: ApiKey, message: Any, context: RequestContext, *, may_wait: bool, leader_epoch: int
    ) -> Any:
        """These calls go to the other node as they are, without an Envelope: no client has sent them."""
        await self._reach(owner, PURPOSE)
        self._require_young(context, may_wait)
        timeout_s = self._config.answer_wait_ms / 1000
        return await self._links.call(owner, api_key, message, timeout_s=timeout_s, purpose=PURPOSE)
