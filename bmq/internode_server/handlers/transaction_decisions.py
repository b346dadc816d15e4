"""Decisions about open transactions whose coordinator this node is: from other nodes' proxies."""

from __future__ import annotations

from typing import Any

from bmq.protocol.apis import ApiKey
from bmq.protocol.request_context import RequestContext
from bmq.protocol.transaction_decisions import TransactionDecideRequest
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.TRANSACTION_DECIDE)
async def decide(request: TransactionDecideRequest, context: RequestContext, services: Services) -> Any:
    """The answer of this node's coordinator."""
    return await services.transactions.handle(ApiKey.TRANSACTION_DECIDE, request, context)
