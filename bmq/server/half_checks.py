"""Asks about undecided half messages, by HTTP or by records, and writes copies of those given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from bmq.broker.half_checker import CheckAnswer, CheckRequest, CheckTarget, NobodyAsked
from bmq.broker.manager import PartitionManager
from bmq.log.clock import Clock
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.batch_records import Record
from bmq.protocol.errors import KafkaError
from bmq.proxy.dead_letters.record_appends import RecordAppender
from bmq.proxy.dead_letters.target import target_of
from bmq.server.check_posts import CheckPosts
from bmq.server.dead_letters import RecordIo
from bmq.server.half_check_settings import HalfCheckSettings

RECORD_CHECKS_MAX: Final = 16
"""Appends of checks by records that are on their way at the same time."""


def half_checks(
    manager: PartitionManager,
    image: Callable[[], MetadataImage],
    io: RecordIo,
    clock: Clock,
    settings: HalfCheckSettings,
) -> CheckPosts:
    """From now on the partitions of this process have their half messages checked. Returns what posts for all of the process."""
    checker = HalfMessageChecker(image, io.appender, clock, settings)
    manager.use_half_checker(checker)
    return checker.posts


class HalfMessageChecker:
    """Implements bmq.broker.half_checker.HalfChecker."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        appender: RecordAppender,
        clock: Clock,
        settings: HalfCheckSettings,
    ) -> None:
        self._image = image
        self._appender = appender
        self._clock = clock
        self.posts = CheckPosts(settings, clock)
        self._room = asyncio.Semaphore(RECORD_CHECKS_MAX)

    async def ask(self, target: CheckTarget, take: Callable[[], Awaitable[CheckRequest | None]]) -> CheckAnswer | None:
        """As HalfChecker.ask."""
        if target.url:
            return await self.posts.ask(target.url, take)
        async with self._room:
            try:
                self._topic(target.topic)
            except KafkaError as error:
                await take()  # so that their times pass
                raise NobodyAsked(str(error)) from error
            request = await take()
            if request is None:
                return None
            records = [
                Record(
                    check.check_id.encode(),
                    None,
                    (
                        ("bmq-half-topic", request.topic.encode()),
                        ("bmq-half-partition", b"%d" % request.partition),
                        ("bmq-half-offset", b"%d" % check.offset),
                        ("bmq-half-check", b"%d" % check.number),
                    ),
                    timestamp_ms=self._clock.now_ms(),
                )
                for check in request.checks
            ]
            await self._append(target.topic, request.partition, records)
            return CheckAnswer()

    async def copy(self, topic: str, partition: int, records: Sequence[Record]) -> None:
        """As HalfChecker.copy."""
        async with self._room:
            await self._append(topic, partition, list(records))

    async def close(self) -> None:
        """As HalfChecker.close."""
        await self.posts.close()

    def _topic(self, name: str) -> TopicImage:
        """Raises KafkaError with a sentence."""
        topic = target_of(self._image(), name, creates=False)
        assert topic is not None
        return topic

    async def _append(self, name: str, partition: int, records: list[Record]) -> None:
        topic = self._topic(name)
        place = TopicPartition(topic.topic_id, partition % len(topic.partitions))
        try:
            await self._appender.append(place, records)
        except KafkaError as error:
            raise KafkaError(error.code, f"topic {name}, partition {place.partition}: {error}") from error
