"""HearController: a candidate that does not hear the controller asks whether this node does."""

from __future__ import annotations

from bmq.internode_server.services import internal
from bmq.protocol.apis import ApiKey
from bmq.protocol.internal_messages import HearControllerRequest, HearControllerResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import handles
from bmq.proxy.services import Services


@handles(ApiKey.HEAR_CONTROLLER)
async def hear_controller(
    request: HearControllerRequest, context: RequestContext, services: Services
) -> HearControllerResponse:
    """Answers with the controller's next answer to this node, or its silence."""
    return HearControllerResponse(is_heard=await internal(services).hears_controller(request.controller_epoch))
