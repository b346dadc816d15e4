"""Making views for operators. The controller decides, as it does for clients that create topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bmq.admin.orders import OrderRefused
from bmq.metadata.image import MetadataImage
from bmq.metadata.view_configs import VIEW_FILTER, VIEW_OF
from bmq.protocol.apis import ApiKey
from bmq.protocol.default_topic import default_topic
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreateTopicsResponse
from bmq.protocol.request_context import RequestMethod, by_itself

CREATION_WAIT_MS: Final = 15_000
_PASSING: Final = (
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""Codes that say nothing against the view: ask again."""


class ViewCreation:
    """`create_topics`: sends a CreateTopics request to the active controller. `image`: of this process."""

    def __init__(self, create_topics: RequestMethod, image: Callable[[], MetadataImage]) -> None:
        self._create_topics = create_topics
        self._image = image

    async def create(self, view: str, base: str, condition: str, *, is_dry_run: bool) -> bool:
        """Returns whether it is new: False if the same view of the same topic is there already.

        Raises OrderRefused with the controller's sentence, KafkaError where the controller could not decide.
        """
        configs = {VIEW_OF: base, VIEW_FILTER: condition}
        request = CreateTopicsRequest(
            topics=[default_topic(view, configs)], timeout_ms=CREATION_WAIT_MS, validate_only=is_dry_run
        )
        response: CreateTopicsResponse = await self._create_topics(request, by_itself(ApiKey.CREATE_TOPICS))
        (result,) = response.topics
        if not result.error_code:
            return True
        code = ErrorCode(result.error_code)
        if code is ErrorCode.TOPIC_ALREADY_EXISTS and self._is_there(view, base, condition):
            return False
        sentence = result.error_message or code.name
        raise KafkaError(code, sentence) if code in _PASSING else OrderRefused(sentence)

    def _is_there(self, view: str, base: str, condition: str) -> bool:
        topic = self._image().topics.get(view)
        return (
            topic is not None
            and topic.view is not None
            and (topic.view.base_name, topic.view.filter) == (base, condition)
        )
