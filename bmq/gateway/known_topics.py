"""Which topics a user may see, asked of the cluster and remembered for a moment, so that a wrong name fails at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from cachetools import TTLCache
from confluent_kafka import KafkaException, TopicCollection

from bmq.gateway.principal import Principal
from bmq.gateway.received import failure_of

KNOWN_MAX: Final = 10_000
KNOWN_S: Final = 30.0


class KnownTopics:
    """Part of a Principal. A topic that is not there is asked again each time."""

    def __init__(self, principal: Principal) -> None:
        self._principal = principal
        loop = asyncio.get_running_loop()
        self._known: TTLCache[str, int] = TTLCache(KNOWN_MAX, KNOWN_S, timer=loop.time)
        self._asked: dict[str, asyncio.Task[int]] = {}

    async def partition_count(self, topic: str) -> int:
        """Raises GatewayFailed: NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE."""
        count = self._known.get(topic)
        if count is not None:
            return count
        task = self._asked.get(topic)
        if task is None:
            task = self._asked[topic] = asyncio.ensure_future(self._ask(topic))
            task.add_done_callback(lambda _: self._asked.pop(topic, None))
        return await asyncio.shield(task)

    async def describe(self, topic: str) -> Any:
        """The description of confluent_kafka. Raises GatewayFailed."""
        what = f"topic {topic!r} cannot be read"
        principal = self._principal
        futures = principal.admin.describe_topics(TopicCollection([topic]), request_timeout=principal.answer_wait_s)
        return await principal.answer(futures[topic], what)

    async def names(self) -> Sequence[str]:
        """Of all topics that the user may see. Raises GatewayFailed."""
        principal = self._principal
        try:
            listed = await asyncio.to_thread(principal.admin.list_topics, timeout=principal.answer_wait_s)
        except KafkaException as error:
            raise failure_of(error.args[0], "the topics cannot be listed") from None
        return sorted(listed.topics)

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)

    async def close(self) -> None:
        """There is nothing to close."""

    async def _ask(self, topic: str) -> int:
        count = len((await self.describe(topic)).partitions)
        self._known[topic] = count
        return count
