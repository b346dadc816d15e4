"""Channels of Databus: operators' orders. The controller decides on changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

import structlog

from bmq.admin.operations import NotActiveController
from bmq.admin.ports import TableController
from bmq.channels.channel import Channel
from bmq.controller.channels import ChannelChange, ChannelRefused, decide_delete_channel, decide_put_channel
from bmq.controller.decision import Decision
from bmq.dataclass import dataclass
from bmq.metadata.image import MetadataImage
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
"""Codes that say nothing against the topic: ask again."""

_log = structlog.get_logger("bmq.admin")


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A missing topic is to be created. `partitions`: None: as many as `num.partitions` says."""

    partitions: int | None = None


class Channels:
    """`controller()`: the active controller if it is in this process. `create_topics()`: sends CreateTopics to it."""

    def __init__(
        self, controller: Callable[[], TableController | None], create_topics: Callable[[], RequestMethod | None]
    ) -> None:
        self._controller = controller
        self._create_topics = create_topics

    @property
    def is_active(self) -> bool:
        return self._controller() is not None

    def has_topic(self, name: str) -> bool:
        """Raises NotActiveController."""
        return name in self._active().image.topics

    async def put(
        self,
        channel: Channel,
        *,
        if_version: int | None = None,
        new_topic: NewTopic | None = None,
        is_dry_run: bool = False,
    ) -> ChannelChange:
        """Create or replace a channel. `new_topic`: create its topic first if it is missing.

        Raises NotActiveController, ChannelRefused, InvalidChannel, KafkaError.
        """
        controller = self._active()

        def planned(image: MetadataImage, *, is_topic_coming: bool) -> Decision[ChannelChange]:
            return decide_put_channel(
                image, channel, controller.now_ms(), if_version=if_version, is_topic_coming=is_topic_coming
            )

        # A channel that is refused must not leave a topic behind, so it is checked first.
        plan = planned(controller.image, is_topic_coming=new_topic is not None).response
        if new_topic is not None and channel.topic not in controller.image.topics:
            await self._create_topic(channel.topic, new_topic, is_dry_run=is_dry_run)
        if is_dry_run:
            return plan

        def decide(image: MetadataImage, new_id: UUID, now_ms: int) -> Decision[ChannelChange]:
            return planned(image, is_topic_coming=False)

        change = await controller.decide_with_id(decide)
        if change.is_new or change.changes:
            _log.info("channel_changed", channel=channel.name, topic=channel.topic, version=change.version)
        return change

    async def delete(self, name: str, *, if_version: int | None = None, is_dry_run: bool = False) -> ChannelChange:
        """Raises NotActiveController, UnknownChannel, ChannelRefused, KafkaError."""

        def decide(image: MetadataImage, new_id: UUID, now_ms: int) -> Decision[ChannelChange]:
            return decide_delete_channel(image, name, if_version=if_version)

        controller = self._active()
        if is_dry_run:
            return decide_delete_channel(controller.image, name, if_version=if_version).response
        change = await controller.decide_with_id(decide)
        _log.info("channel_deleted", channel=name, version=change.version)
        return change

    async def _create_topic(self, name: str, new_topic: NewTopic, *, is_dry_run: bool) -> None:
        """Raises ChannelRefused with the controller's sentence, KafkaError where the controller could not decide."""
        create_topics = self._create_topics()
        if create_topics is None:
            raise NotActiveController
        topic = default_topic(name)
        if new_topic.partitions is not None:
            topic.num_partitions = new_topic.partitions
        request = CreateTopicsRequest(topics=[topic], timeout_ms=CREATION_WAIT_MS, validate_only=is_dry_run)
        response: CreateTopicsResponse = await create_topics(request, by_itself(ApiKey.CREATE_TOPICS))
        (result,) = response.topics
        code = ErrorCode(result.error_code)
        if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        sentence = f"topic {name} cannot be created: {result.error_message or code.name}"
        raise KafkaError(code, sentence) if code in _PASSING else ChannelRefused(sentence)

    def _active(self) -> TableController:
        controller = self._controller()
        if controller is None:
            raise NotActiveController
        return controller
