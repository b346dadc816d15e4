"""Writes dead letters of share groups to their topics, by ordinary produces of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bmq.log.clock import Clock
from bmq.log.partition_log import TopicPartition
from bmq.metadata.features import DEAD_LETTERS_LEVEL, SHARE_VERSION, level_in_force
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.dead_letters import DeadRecords
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.request_context import RequestMethod
from bmq.proxy.dead_letters.letter_topics import DeadLetterSettings, LetterTopics
from bmq.proxy.dead_letters.letters import Letters, letters_of
from bmq.proxy.dead_letters.record_appends import RecordAppender
from bmq.proxy.dead_letters.record_reads import ReadRecords, RecordReader
from bmq.proxy.partitions import Partitions

BATCH_BYTES_WANTED: Final = 512 * 1024
"""Bytes of dead letters that are written at once; a single one may be larger."""


class DeadLetterProducer:
    """Implements bmq.coordinator.share_state.dead_letters.DeadLetterWriter."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        partitions: Partitions,
        reader: RecordReader,
        appender: RecordAppender,
        clock: Clock,
        create_topics: RequestMethod,
        settings: Callable[[], DeadLetterSettings],
    ) -> None:
        self._image = image
        self._partitions = partitions
        self._reader = reader
        self._appender = appender
        self._clock = clock
        self._topics = LetterTopics(image, create_topics, settings)

    def is_enabled(self) -> bool:
        return level_in_force(self._image().features, SHARE_VERSION) >= DEAD_LETTERS_LEVEL

    async def write(self, dead: DeadRecords) -> int:
        """Implements DeadLetterWriter.write."""
        source = self._image().topics_by_id.get(dead.topic_id)
        if source is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the topic of the records is deleted")
        target = await self._topics.get(dead.terms.topic, source.name)
        letters = await self._letters(dead, source.name, target)
        await self._appender.append_letters(target, dead.partition, letters.records)
        return letters.end

    async def _letters(self, dead: DeadRecords, source_name: str, target: TopicImage) -> Letters:
        read = ReadRecords([], dead.last + 1)
        if dead.terms.is_copying:
            log = await self._partitions.leader_of(TopicPartition(dead.topic_id, dead.partition))
            read = await self._reader.read(log, dead.first, dead.last, BATCH_BYTES_WANTED)
        return letters_of(
            dead,
            source_name,
            {record.offset: record for record in read.records},
            read.next_offset,
            self._clock.now_ms(),
            batch_bytes_max=target.log_config.max_message_bytes,
            bytes_wanted=BATCH_BYTES_WANTED,
        )
