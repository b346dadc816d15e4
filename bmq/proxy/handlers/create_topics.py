"""CreateTopics: the controller decides, topic by topic."""

from __future__ import annotations

from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreateTopicsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services


@handles(ApiKey.CREATE_TOPICS)
async def create_topics(
    request: CreateTopicsRequest, context: RequestContext, services: Services
) -> CreateTopicsResponse:
    """CreateTopics 2-7. Versions before 5 have no room for the configs (KIP-525), before 7 none for the topic id."""
    response: CreateTopicsResponse = await services.controller.create_topics(request, principal=context.principal)
    return response
