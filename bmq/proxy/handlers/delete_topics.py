"""DeleteTopics: by name, from version 6 by name or id. Files are removed later, in the background."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from bmq.protocol.messages.delete_topics_response import DeleteTopicsResponse
from bmq.proxy.dispatch import RequestContext, handles
from bmq.proxy.services import Services

_IDS_FROM_VERSION: Final = 6
_DELETION_DISABLED_FROM_VERSION: Final = 3


@handles(ApiKey.DELETE_TOPICS)
async def delete_topics(
    request: DeleteTopicsRequest, context: RequestContext, services: Services
) -> DeleteTopicsResponse:
    """DeleteTopics 1-6. TOPIC_DELETION_DISABLED is unknown before version 3, which gets INVALID_REQUEST."""
    if context.api_version < _IDS_FROM_VERSION:
        request = replace(request, topics=[DeleteTopicState(name=name) for name in request.topic_names])
    response: DeleteTopicsResponse = await services.controller.delete_topics(request)
    if context.api_version < _DELETION_DISABLED_FROM_VERSION:
        for result in response.responses:
            if result.error_code == ErrorCode.TOPIC_DELETION_DISABLED:
                result.error_code = ErrorCode.INVALID_REQUEST
    return response
