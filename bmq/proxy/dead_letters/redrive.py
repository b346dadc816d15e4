"""Redrives dead letters of a share group, or of a group's retry topic: writes their records to a topic again.

A redrive goes up to the end that the dead letters' topic has when it begins. Its progress is kept as committed offsets of a
consumer group of its own, so a redrive that was cancelled, or whose node died, can be continued. A record is written twice if
that happens between its append and the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import field
from functools import partial
from typing import Final, Protocol, TypeVar

from bmq.aio.backoff import Backoff
from bmq.aio.retries import until_done
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.partition_log import TopicPartition
from bmq.metadata.dead_letter_configs import INTERNAL_PREFIX
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.retry_topics import LETTERS_PREFIX, letters_topic_of
from bmq.proxy.dead_letters.letters import size_of
from bmq.proxy.dead_letters.record_appends import RecordAppender
from bmq.proxy.dead_letters.record_reads import ReadRecords, RecordReader
from bmq.proxy.dead_letters.redrive_filter import LetterFilter, letter_of, progress_group, redriven
from bmq.proxy.partitions import Partitions

RECORDS_PER_S_MAX: Final = 100_000
CHUNK_BYTES: Final = 512 * 1024
CHUNK_RECORDS: Final = 500
RETRY_MAX_S: Final = 30.0
"""How long a step is retried while partitions and coordinators move."""
PAUSE_FIRST_S: Final = 0.1
PAUSE_MAX_S: Final = 2.0
_PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Errors that are retried: nothing was written. (After REQUEST_TIMED_OUT the records may be in the log.)"""

T = TypeVar("T")


class Progress(Protocol):
    """Committed offsets of a consumer group without members."""

    async def read(self, group_id: str, topic: TopicImage) -> Sequence[int]:
        """The committed offset of each partition, -1 without one. Raises KafkaError if they are not known."""

    async def write(self, group_id: str, topic: TopicImage, partition: int, offset: int) -> None:
        """Commit an offset. Raises KafkaError."""


@dataclass(frozen=True, slots=True)
class RedriveOrder:
    """What to redrive.

    `letters_topic`: the dead letters' topic; None for the one that the group's config names, else `dlq.<group>`. `to`: the topic
    to write to; None for each record's original topic, where all groups read it again. `is_from_start`: also redrive letters that
    were redriven before. `is_dry_run`: count only.
    """

    group_id: str
    to: str | None
    letters_topic: str | None = None
    wanted: LetterFilter = field(default_factory=LetterFilter)
    records_per_s: int = 1_000
    is_from_start: bool = False
    is_dry_run: bool = False


@dataclass(slots=True)
class RedriveCounts:
    """Counts of a redrive, in records of the dead letters' topic.

    `others`: letters of other groups or not wanted by the filter, and records that are not dead letters. `without_copy`: letters
    without the record.
    """

    redriven: int = 0
    others: int = 0
    without_copy: int = 0
    read: int = 0
    total: int = 0

    @property
    def share_done(self) -> float:
        return 1.0 if not self.total else self.read / self.total

    def text(self, *, is_dry_run: bool) -> str:
        verb = "would be redriven" if is_dry_run else "redriven"
        return f"{self.redriven} {verb}, {self.without_copy} without a copy, {self.others} others, of {self.total}"


class RedriveRefused(KafkaError):
    """The order cannot be carried out; the message says why in one sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)


class Redriver:
    """Carries out redrives, independently of each other."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        partitions: Partitions,
        reader: RecordReader,
        appender: RecordAppender,
        progress: Progress,
        clock: Clock,
    ) -> None:
        self._image = image
        self._partitions = partitions
        self._reader = reader
        self._appender = appender
        self._progress = progress
        self._clock = clock

    def letters_topic(self, order: RedriveOrder) -> TopicImage:
        """The dead letters' topic. Raises RedriveRefused, also if the order's target topic cannot take records."""
        image = self._image()
        configs = image.group_configs.get(order.group_id, {})
        name = order.letters_topic or configs.get("errors.deadletterqueue.topic.name", "").strip()
        own_name = letters_topic_of(order.group_id, LETTERS_PREFIX)
        if not name and own_name in image.topics:  # the name that retry topics use
            name = own_name
        if not name:
            raise RedriveRefused(f"group {order.group_id} names no topic of dead letters; name one")
        letters = image.topics.get(name)
        if letters is None:
            raise RedriveRefused(f"topic {name} does not exist")
        if order.to is not None:
            self._target(order.to, letters.name)
        return letters

    def _target(self, name: str, letters_topic: str) -> TopicImage:
        if name == letters_topic:
            raise RedriveRefused(f"topic {name} has the dead letters themselves")
        topic = self._image().topics.get(name)
        if topic is None:
            raise RedriveRefused(f"topic {name} does not exist")
        if topic.is_internal or name.startswith(INTERNAL_PREFIX):
            raise RedriveRefused(f"topic {name} is internal")
        return topic

    async def run(self, order: RedriveOrder, step_done: Callable[[RedriveCounts], None]) -> RedriveCounts:
        """Redrive up to the end that the topic has now. `step_done`: called after each chunk; it may raise to end the redrive.

        Raises KafkaError, RedriveRefused.
        """
        letters = self.letters_topic(order)
        committed: Sequence[int] = [-1] * len(letters.partitions)
        if not order.is_from_start:
            group_id = progress_group(order.group_id, order.wanted)
            committed = await _tried_again(lambda: self._progress.read(group_id, letters))
        work: list[tuple[TopicPartition, int, int]] = []
        counts = RedriveCounts()
        for number, offset in enumerate(committed):
            place = TopicPartition(letters.topic_id, number)
            log = await _tried_again(partial(self._partitions.leader_of, place))
            first = max(offset, log.log_start_offset)
            work.append((place, first, log.last_stable_offset))
            counts.total += max(log.last_stable_offset - first, 0)
        step_done(counts)
        for place, first, end in work:
            while first < end:
                first = await self._chunk(order, letters, place, first, end, counts)
                step_done(counts)
        return counts

    async def _chunk(
        self,
        order: RedriveOrder,
        letters: TopicImage,
        letters_place: TopicPartition,
        first: int,
        end: int,
        counts: RedriveCounts,
    ) -> int:
        """Redrive the next dead letters of a partition. Returns the offset behind them."""
        started_s = asyncio.get_running_loop().time()
        number = letters_place.partition
        last = min(end, first + min(CHUNK_RECORDS, max(order.records_per_s, 1))) - 1

        async def read_chunk() -> ReadRecords:
            log = await self._partitions.leader_of(letters_place)
            return await self._reader.read(log, first, last, CHUNK_BYTES)

        read = await _tried_again(read_chunk)
        by_place: dict[TopicPartition, list[Record]] = {}
        count = 0
        for record in read.records:
            letter = letter_of(record)
            if letter is None or letter.group_id != order.group_id or not order.wanted.has(letter, record):
                counts.others += 1
            elif not letter.has_copy:
                counts.without_copy += 1
            else:
                count += 1
                if not order.is_dry_run:
                    target = self._target(letter.topic if order.to is None else order.to, letters.name)
                    place = TopicPartition(target.topic_id, letter.partition % len(target.partitions))
                    again = redriven(record, letter, letters.name, number, self._clock.now_ms())
                    by_place.setdefault(place, []).append(again)
        counts.redriven += count
        counts.read += read.next_offset - first
        if order.is_dry_run:
            return read.next_offset

        async def deliver() -> None:
            for place, records in by_place.items():
                await self._append(place, records)
            group_id = progress_group(order.group_id, order.wanted)
            await _tried_again(lambda: self._progress.write(group_id, letters, number, read.next_offset))

        await _to_its_end(deliver())
        took_s = asyncio.get_running_loop().time() - started_s
        await asyncio.sleep(max(count / max(order.records_per_s, 1) - took_s, 0))
        return read.next_offset

    async def _append(self, place: TopicPartition, records: list[Record]) -> None:
        """Append records in order, in batches that the topic accepts. Raises KafkaError."""
        topic = self._image().topics_by_id.get(place.topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the topic to write into is deleted")
        batch: list[Record] = []
        batch_bytes = 0
        for record in records:
            size_bytes = size_of(record)
            if batch and batch_bytes + size_bytes > topic.log_config.max_message_bytes - 100:
                await _tried_again(partial(self._appender.append, place, batch))
                batch, batch_bytes = [], 0
            batch.append(record)
            batch_bytes += size_bytes
        if batch:
            await _tried_again(partial(self._appender.append, place, batch))


async def _tried_again(call: Callable[[], Awaitable[T]]) -> T:
    """Call until it succeeds. Raises a KafkaError that is not worth a retry, or the last one after RETRY_MAX_S."""
    loop = asyncio.get_running_loop()
    give_up_s = loop.time() + RETRY_MAX_S
    pauses = Backoff(None, first_s=PAUSE_FIRST_S, max_s=PAUSE_MAX_S)

    def pause_s(error: KafkaError, _took_s: float) -> float | None:
        return pauses.next_s() if error.code in _PASSING and loop.time() < give_up_s else None

    return await until_done(call, KafkaError, pause_s)


async def _to_its_end(work: Coroutine[None, None, None]) -> None:
    """Let a cancellation wait for the end of `work`: records written without a commit would be written again."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
