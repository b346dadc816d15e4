"""All transactional ids of the cluster, as one node serves them (shard_routing.py): shards are partitions of
`__transaction_state`. Clients come through a proxy, and this node's partition owners through `verify`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.coordinator.transactions.listing import ListFilter
from bmq.coordinator.transactions.verifications import Verifications
from bmq.log.transactions import TransactionClaim
from bmq.metadata.image import TRANSACTIONS_TOPIC_NAME, MetadataImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from bmq.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnResponse
from bmq.protocol.messages.list_transactions_request import ListTransactionsRequest
from bmq.protocol.messages.list_transactions_response import ListTransactionsResponse
from bmq.protocol.request_context import RequestContext, by_itself
from bmq.routing.shard_routing import Listing, NodeRoutes, ShardRouting, ShardRoutingConfig
from bmq.routing.transaction_decisions import RoutedDecisions
from bmq.routing.transaction_requests import transaction_request


class RoutedTransactions(ShardRouting):
    """Implements bmq.proxy.services.Transactions and bmq.log.transactions.TransactionVerifier.

    `local`: the coordinator of the shards this process owns, if it has one. `is_verifying()`: whether owners verify
    partitions that clients say they have added (`transaction.partition.verification.enable`).
    """

    def __init__(
        self,
        local: TransactionCoordinator | None,
        routes: NodeRoutes,
        config: ShardRoutingConfig,
        *,
        is_verifying: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(TRANSACTIONS_TOPIC_NAME, "transactional id", local, routes, config)
        self.decisions = RoutedDecisions(local, routes, config)
        self._verifications = Verifications(self._ask_coordinators, self._owner, is_verifying)

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """See ShardRouting."""
        super().image_changed(old, new)
        self.decisions.image_changed(old, new)

    def changed(self) -> None:
        """See ShardRouting."""
        super().changed()
        self.decisions.changed()

    def end_waits(self) -> None:
        """See ShardRouting."""
        super().end_waits()
        self.decisions.end_waits()

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """The answers of the coordinators; errors are in the response."""
        if api_key is ApiKey.LIST_TRANSACTIONS:
            return await self._list_transactions(request, context)
        return await self._perform(transaction_request(api_key, request, context.api_version), context)

    async def verify(
        self, claim: TransactionClaim, producer_id: int, producer_epoch: int, topic: str, partitions: Sequence[int]
    ) -> Sequence[ErrorCode]:
        """Implements bmq.log.transactions.TransactionVerifier; calls in one turn of the loop go out together."""
        return await self._verifications.verify(claim, producer_id, producer_epoch, topic, partitions)

    async def _ask_coordinators(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        api_key = ApiKey.ADD_PARTITIONS_TO_TXN
        answer: AddPartitionsToTxnResponse = await self.handle(api_key, request, by_itself(api_key))
        return answer

    async def _list_transactions(
        self, request: ListTransactionsRequest, context: RequestContext
    ) -> ListTransactionsResponse:
        """ListTransactions 0-2."""
        try:
            unknown_states = ListFilter(request).unknown_states
        except KafkaError as error:
            return ListTransactionsResponse(error_code=error.code)
        listed = await self._list(
            ApiKey.LIST_TRANSACTIONS,
            request,
            context,
            lambda answer: Listing(answer.error_code, answer.transaction_states),
            lambda one: one.transactional_id,
        )
        return ListTransactionsResponse(
            error_code=listed.error, unknown_state_filters=unknown_states, transaction_states=listed.items
        )
