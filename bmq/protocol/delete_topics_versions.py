"""Translates DeleteTopics between versions, so that the controller handles one form only."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from bmq.protocol.messages.delete_topics_response import DeleteTopicsResponse

TOPIC_STATES_FROM_VERSION: Final = 6
_DELETION_DISABLED_FROM_VERSION: Final = 3


def with_topic_states(request: DeleteTopicsRequest, api_version: int) -> DeleteTopicsRequest:
    """The request with `topics`, as version 6 sends it (name or id, KIP-516); older versions send names only."""
    if api_version >= TOPIC_STATES_FROM_VERSION:
        return request
    return replace(request, topics=[DeleteTopicState(name=name) for name in request.topic_names])


def as_version_knows(response: DeleteTopicsResponse, api_version: int) -> DeleteTopicsResponse:
    """Changes `response` in place: versions below 3 get INVALID_REQUEST instead of TOPIC_DELETION_DISABLED."""
    if api_version < _DELETION_DISABLED_FROM_VERSION:
        for result in response.responses:
            if result.error_code == ErrorCode.TOPIC_DELETION_DISABLED:
                result.error_code = ErrorCode.INVALID_REQUEST
    return response
