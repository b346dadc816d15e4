"""Copies records that a lane has left over to the topic of copies, which the base group reads as well.

A copy is a batch of records of one batch of the source. What it has depends on the job and on the log, so that a job that is
repeated after a crash writes the same batch with the same sequence: a duplicate to the owner of the copies' partition. A batch that
the topic of copies refuses for its records is not written, so its first half is sent in its place: down to one record, which
keeps those behind it waiting until the topic takes it. None is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from bmq.log.lanes.copying import CopyJob, CopyStep
from bmq.log.lanes.names import copies_topic
from bmq.log.lanes.record_lane import DEFAULT_HEADER, read_lane_of
from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.batch_records import Record, decode_records
from bmq.protocol.control_batch import ControlType, parse_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import BatchHeader, batches
from bmq.proxy.batch_opener import BatchOpener
from bmq.proxy.dead_letters.letters import size_of
from bmq.proxy.dead_letters.record_appends import RecordAppender
from bmq.proxy.partitions import Partitions
from bmq.proxy.share.partition_reads import read_views

if TYPE_CHECKING:
    from bmq.proxy.fetch_resources import FetchResources

READ_BYTES_MAX: Final = 1024 * 1024
COPY_BYTES_MAX: Final = 256 * 1024
"""Records of one copied batch, with the headers of copies; one record may be longer."""
COPY_RECORDS_MAX: Final = 1_000
"""Half of what a retry topic takes in a batch."""
_HALVED_AT: Final = frozenset(
    (
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        # A job that is repeated where the topic takes larger batches by now: the half is there.
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
)
"""A topic that says this of a batch may take its first half."""
_HEADER: Final = DEFAULT_HEADER.encode()
_Batch = tuple[BatchHeader, memoryview]


class LaneCopier:
    """Implements bmq.coordinator.lanes.ports.LaneCopies. `shared()`: the process's caches and limits of reads."""

    def __init__(
        self,
        image: Callable[[], MetadataImage],
        partitions: Partitions,
        shared: Callable[[], FetchResources],
        appender: RecordAppender,
        opener: BatchOpener,
    ) -> None:
        self._image = image
        self._partitions = partitions
        self._shared = shared
        self._appender = appender
        self._opener = opener

    async def producer(self, base: str, topic_id: UUID, partition: int) -> tuple[int, int]:
        """(a new producer id, the partition of the topic of copies for records of this partition). Raises KafkaError."""
        target = self._target(base, topic_id)
        return await self._appender.new_producer_id(), partition % len(target.partitions)

    async def copy(self, job: CopyJob) -> CopyStep:
        """Copy at most one batch. Returns the offset to continue from, and how many records were copied. Raises BmqError."""
        target = self._target(job.base, job.topic_id)
        log = await self._partitions.leader_of(TopicPartition(job.topic_id, job.partition))
        if log.last_stable_offset < job.end:
            await log.prove_ownership()
        if log.last_stable_offset < job.end:
            raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, "a transaction is open among the records")
        first = max(job.first, log.log_start_offset)
        if first >= job.end:
            return CopyStep(job.end, 0)
        views = await read_views(self._shared(), log, first, READ_BYTES_MAX, log.last_stable_offset)
        if not views:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"offset {first} cannot be read now")
        whole = memoryview(b"".join(views))
        read = [(header, whole[place : place + header.size_bytes]) for place, header in batches(whole)]
        end = read[-1][0].end_offset
        for header, data in await self._visible(log, first, end, read):
            if header.base_offset >= job.end:
                break
            next_offset = min(header.end_offset, job.end)
            of_lane = partial(_of_lane, data, job.lane, first, job.end)
            found = await self._opener.open(header.attributes, len(data), of_lane)
            if not found:
                continue
            source = self._image().topics_by_id.get(job.topic_id)
            if source is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the topic of the records is deleted")
            name = source.name
            copies = _up_to([_copied(record, name, job.partition) for record in found[:COPY_RECORDS_MAX]])
            count = await self._append(job, target, copies)
            return CopyStep(next_offset if count == len(found) else found[count - 1].offset + 1, count)
        return CopyStep(min(end, job.end), 0)

    async def _append(self, job: CopyJob, target: TopicImage, copies: list[Record]) -> int:
        """How many of the copies were appended, from the first on. Raises KafkaError, which says where they were to go."""
        # The topic may have been made again, with fewer partitions.
        place = TopicPartition(target.topic_id, job.copy_partition % len(target.partitions))
        while True:
            try:
                await self._appender.append_as(place, copies, job.producer_id, job.sequence)
            except KafkaError as error:
                if error.code not in _HALVED_AT or len(copies) == 1:
                    which = "its first record" if len(copies) == 1 else f"{len(copies)} records"
                    raise KafkaError(
                        error.code,
                        f"topic {target.name}, partition {place.partition}, did not take the copy of {which} from offset "
                        f"{job.first} on: {str(error) or error.code.name}",
                    ) from error
                copies = copies[: len(copies) // 2]
            else:
                return len(copies)

    def _target(self, base: str, topic_id: UUID) -> TopicImage:
        image = self._image()
        source = image.topics_by_id.get(topic_id)
        if source is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "the topic of the records is deleted")
        target = image.topics.get(copies_topic(source.name, base))
        if target is None or not target.partitions:
            why = f"there is no topic {copies_topic(source.name, base)} for what a lane leaves over"
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, why)
        return target

    async def _visible(self, log: PartitionLog, first: int, end: int, found: list[_Batch]) -> list[_Batch]:
        """The batches with records, without those of aborted transactions."""
        aborted = log.aborted_transactions(first, end)
        if aborted is None:
            aborted = await log.find_aborted_transactions(first, end)
        return list(_committed(found, sorted((one.first_offset, one.producer_id) for one in aborted)))


def _committed(found: list[_Batch], aborted: list[tuple[int, int]]) -> Iterator[_Batch]:
    """Leave out aborted batches as consumers do: from the first offset of an aborted transaction to its marker."""
    open_producers: set[int] = set()
    for header, data in found:
        while aborted and aborted[0][0] <= header.last_offset:
            open_producers.add(aborted.pop(0)[1])
        if header.is_control:
            marker = parse_end_transaction_marker(data)
            if marker is not None and marker.control_type is ControlType.ABORT:
                open_producers.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in open_producers):
            yield header, data


def _of_lane(data: memoryview, lane: str, first: int, end: int) -> list[Record]:
    return [
        record
        for record in decode_records(data)
        if first <= record.offset < end
        and read_lane_of(((name.encode("utf-8", "surrogateescape"), value) for name, value in record.headers), _HEADER)
        == lane
    ]


def _up_to(copies: list[Record]) -> list[Record]:
    """The first of them, one at least, that have COPY_BYTES_MAX together."""
    size = 0
    for count, record in enumerate(copies):
        size += size_of(record)
        if count and size > COPY_BYTES_MAX:
            return copies[:count]
    return copies


def _copied(record: Record, topic: str, partition: int) -> Record:
    origin = (
        ("bmq-lane-topic", topic.encode()),
        ("bmq-lane-partition", b"%d" % partition),
        ("bmq-lane-offset", b"%d" % record.offset),
    )
    return record._replace(headers=(*record.headers, *origin), offset=0)
