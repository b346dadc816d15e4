"""Finds topics for dead letters: checks the topic at each write, and creates a missing one if that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bmq.dataclass import dataclass
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.dead_letters import TOPIC_CONFIG
from bmq.protocol.default_topic import default_topic
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.create_topics_request import CreateTopicsRequest
from bmq.protocol.request_context import RequestMethod, by_itself
from bmq.proxy.dead_letters.target import check_name, target_of

CREATE_WAIT_MAX_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class DeadLetterSettings:
    """`prefix`: how names of topics for dead letters begin. `creates_topics`: whether missing topics are created."""

    prefix: str = "dlq."
    creates_topics: bool = False


class LetterTopics:
    """Finds and creates topics for dead letters. `settings()` returns the settings in force."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        create_topics: RequestMethod,
        settings: Callable[[], DeadLetterSettings],
    ) -> None:
        self._image = image
        self._create_topics = create_topics
        self.settings = settings

    def found(self, name: str, source: str) -> TopicImage | None:
        """The topic `name` for dead letters of records in topic `source`; None if it has to be created first.

        Raises KafkaError, whose message is a sentence, if the topic may not take them.
        """
        settings = self.settings()
        check_name(name, source, settings.prefix)
        return target_of(self._image(), name, creates=settings.creates_topics)

    async def get(self, name: str, source: str) -> TopicImage:
        """The topic as `found` returns it, created if it is missing. Raises KafkaError, whose message is a sentence."""
        target = self.found(name, source)
        if target is None:
            await self._create(name)
            target = target_of(self._image(), name, creates=False)
            assert target is not None
        return target

    async def _create(self, name: str) -> None:
        """Create the topic. Raises KafkaError unless it exists then, and this node knows it."""
        topic = default_topic(name, {TOPIC_CONFIG: "true", "message.timestamp.type": "CreateTime"})
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATE_WAIT_MAX_MS)
        answer = await self._create_topics(request, by_itself(ApiKey.CREATE_TOPICS))
        (result,) = answer.topics
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            why = f"topic {name} could not be created: {result.error_message or ErrorCode(result.error_code).name}"
            raise KafkaError(ErrorCode(result.error_code), why)
        if name not in self._image().topics:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name} was created a moment ago")
