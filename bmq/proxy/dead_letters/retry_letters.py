"""Writes dead letters of retry topics to the topics of their groups, by ordinary produces of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from bmq.log.clock import Clock
from bmq.log.timers.retry_letters import DeadRetry
from bmq.metadata.image import MetadataImage
from bmq.protocol.batch_records import Record
from bmq.protocol.dead_letters import DeadReason, letter_headers
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import HEADER_BYTES
from bmq.protocol.request_context import RequestMethod
from bmq.protocol.retry_topics import RetryTopic, retry_topic_of
from bmq.proxy.dead_letters.letter_topics import DeadLetterSettings, LetterTopics
from bmq.proxy.dead_letters.letters import size_of
from bmq.proxy.dead_letters.record_appends import RecordAppender

BATCH_BYTES_WANTED: Final = 512 * 1024
"""Bytes of dead letters that are written at once; a single one may be larger."""
ADDED_BYTES_MAX: Final = 2 * 1024
"""Bytes of a dead letter besides the record: its own headers, with three names of topics and groups, and the batch's header."""


class RetryLetterProducer:
    """Implements bmq.log.timers.retry_letters.RetryLetters."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        appender: RecordAppender,
        clock: Clock,
        create_topics: RequestMethod,
        settings: Callable[[], DeadLetterSettings],
    ) -> None:
        self._appender = appender
        self._clock = clock
        self._topics = LetterTopics(image, create_topics, settings)

    def refusal(self, topic_name: str, size_bytes: int) -> str | None:
        """Implements RetryLetters.refusal."""
        try:
            name = self._letters_topic(_topic_of(topic_name))
            target = self._topics.found(name, topic_name)
        except KafkaError as error:
            return f"no further attempt is left, and it cannot be a dead letter: {error}"
        # The limit of a topic that is yet to be created is not known.
        if target is not None and size_bytes + ADDED_BYTES_MAX > target.log_config.max_message_bytes:
            return (
                f"no further attempt is left, and a dead letter of its {size_bytes} bytes is longer than max.message.bytes of "
                f"topic {name} allows"
            )
        return None

    async def write(self, topic_name: str, partition: int, dead: Sequence[DeadRetry]) -> int:
        """Implements RetryLetters.write."""
        topic = _topic_of(topic_name)
        target = await self._topics.get(self._letters_topic(topic), topic_name)
        now_ms = self._clock.now_ms()
        room_bytes = min(target.log_config.max_message_bytes, BATCH_BYTES_WANTED) - HEADER_BYTES
        letters: list[Record] = []
        for one in dead:
            letter = _letter(one, topic_name, partition, topic.group_id, now_ms)
            room_bytes -= size_of(letter)
            if letters and room_bytes < 0:
                break
            letters.append(letter)
        await self._appender.append_letters(target, partition, letters)
        return len(letters)

    def _letters_topic(self, topic: RetryTopic) -> str:
        return topic.letters_topic(self._topics.settings().prefix)


def _topic_of(name: str) -> RetryTopic:
    topic = retry_topic_of(name)
    if topic is None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is no name of a retry topic")
    return topic


def _letter(dead: DeadRetry, topic_name: str, partition: int, group_id: str, now_ms: int) -> Record:
    record = dead.record
    own = letter_headers(topic_name, partition, dead.offset, group_id, dead.attempts, DeadReason.DELIVERY_COUNT)
    return Record(record.key, record.value, [*own, *record.headers], now_ms)
