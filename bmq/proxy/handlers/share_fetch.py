"""ShareFetch, ShareAcknowledge: records that a share group locks for a member, until it acknowledges them (share/requests.py)."""

from __future__ import annotations

from typing import Any

from bmq.metadata.features import SHARE_VERSION, level_in_force
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services, ShareHandler


@handles(ApiKey.SHARE_FETCH)
async def share_fetch(request: Any, context: RequestContext, services: Services) -> Any:
    """ShareFetch 1-2."""
    return await _share(services).fetch(request, context, services)


@handles(ApiKey.SHARE_ACKNOWLEDGE)
async def share_acknowledge(request: Any, context: RequestContext, services: Services) -> Any:
    """ShareAcknowledge 1-2."""
    return await _share(services).acknowledge(request, context, services)


def _share(services: Services) -> ShareHandler:
    if services.share is None or not level_in_force(services.controller.image.features, SHARE_VERSION):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "share groups are switched off")
    return services.share
