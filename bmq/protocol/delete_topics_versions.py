"""DeleteTopics in the words of each version, so that who decides knows one form only."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from bmq.protocol.messages.delete_topics_response import DeleteTopicsResponse

TOPIC_STATES_FROM_VERSION: Final = 6
_DELETION_DISABLED_FROM_VERSION: Final = 3


def with_topic_states(request: DeleteTopicsRequest, api_version: int) -> DeleteTopicsRequest:
    """With `topics`, as from version 6 on (by name or id, KIP-516); before it there are names alone."""
    if api_version >= TOPIC_STATES_FROM_VERSION:
        return request
    return replace(request, topics=[DeleteTopicState(name=name) for name in request.topic_names])


def as_version_knows(response: DeleteTopicsResponse, api_version: int) -> DeleteTopicsResponse:
    """Changes it: TOPIC_DELETION_DISABLED is unknown before version 3, which gets INVALID_REQUEST."""
    if api_version < _DELETION_DISABLED_FROM_VERSION:
        for result in response.responses:
            if result.error_code == ErrorCode.TOPIC_DELETION_DISABLED:
                result.error_code = ErrorCode.INVALID_REQUEST
    return response
