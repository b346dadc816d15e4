"""Reads one partition for a share group: batches from its next offset on, and the offsets that are archived unseen.

They come from the same tail cache, read cache and files as for every fetch (bmq/proxy/fetch_job.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from bmq.log.partition_log import PartitionLog, TopicPartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.share_state_messages import RECORD_LIMIT, AcquirePartition, OffsetRange
from bmq.proxy.fetch_results import in_order
from bmq.proxy.share.group_terms import EARLIEST, LATEST, Reset
from bmq.proxy.share.read_batches import ReadBatch, batches_of, offset_ranges, unseen_ranges

if TYPE_CHECKING:
    from bmq.proxy.fetch_resources import FetchResources

ATTEMPTS_MAX: Final = 3
"""Tries to read a partition while retention or compaction overtakes the read; then it is answered without records."""
FIRST_READ_BYTES: Final = 8 * 1024
FIRST_READ_RECORD_BYTES: Final = 1024
"""Size of a record by which the length of the first read is estimated; larger records need a second read."""


class Offer(NamedTuple):
    """Batches that were read. `taken_offset`: the offset at which an acquisition of all wanted records would end."""

    views: Sequence[memoryview]
    batches: Sequence[ReadBatch]
    unseen: Sequence[OffsetRange]
    size_bytes: int
    record_count: int
    taken_offset: int


NOTHING: Final = Offer((), (), (), 0, 0, -1)


async def read_offer(
    shared: FetchResources,
    log: PartitionLog,
    offset: int,
    length_bytes_max: int,
    *,
    is_read_committed: bool,
    records_max: int,
    mode: int,
) -> Offer:
    """Whole batches from `offset` on, or from the log's start if that is higher; NOTHING if there are none yet.

    They have `records_max` records if there are as many within `length_bytes_max`, and end with the batch that reaches it.
    Raises BmqError: KAFKA_STORAGE_ERROR, CORRUPT_MESSAGE, NOT_LEADER_OR_FOLLOWER.
    """
    length_bytes = min(length_bytes_max, FIRST_READ_BYTES + records_max * FIRST_READ_RECORD_BYTES)
    for _ in range(ATTEMPTS_MAX):
        bound_offset = log.last_stable_offset if is_read_committed else log.high_watermark
        from_offset = max(offset, log.log_start_offset)
        if from_offset >= bound_offset:
            return NOTHING
        began_s = shared.elapsed_s()
        try:
            views = await read_views(shared, log, from_offset, length_bytes, bound_offset)
            batches, missing = batches_of(views, from_offset, records_max, is_read_committed=is_read_committed)
            if (
                missing > 0
                and length_bytes < length_bytes_max
                and batches
                and batches[-1].last_offset + 1 < bound_offset
            ):
                length_bytes = length_bytes_max
                views = await read_views(shared, log, from_offset, length_bytes, bound_offset)
                batches, _ = batches_of(views, from_offset, records_max, is_read_committed=is_read_committed)
            if not batches:
                return NOTHING
            aborted: Sequence[tuple[int, int]] = ()
            end_offset = batches[-1].last_offset + 1
            if is_read_committed:
                found = log.aborted_transactions(from_offset, end_offset)
                aborted = in_order(
                    await log.find_aborted_transactions(from_offset, end_offset) if found is None else found
                )
        except BmqError as error:
            if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
            continue  # retention was faster
        if shared.elapsed_s() - began_s > shared.config.read_cursor_age_ms / 1000 or from_offset < log.log_start_offset:
            continue  # the file may be replaced since, and the log may have forgotten aborted transactions in it (rule 35)
        unseen = unseen_ranges(batches, views, aborted, from_offset)
        count, taken_offset = _taken(batches, unseen, from_offset, records_max, mode)
        size_bytes = batches[-1].position + batches[-1].size_bytes
        return Offer(views, batches, unseen, size_bytes, count, taken_offset)
    return NOTHING


def acquire_of(log: PartitionLog, offer: Offer, records_max: int, batch_size: int) -> AcquirePartition:
    """The part of a ShareAcquire request for the offer's records."""
    part = question_of(log.topic_partition, log, batch_size)
    part.records_max = records_max
    part.batches = offset_ranges(offer.batches)
    part.archive = offer.unseen
    return part


def question_of(topic_partition: TopicPartition, log: PartitionLog | None, batch_size: int) -> AcquirePartition:
    """The part of a ShareAcquire request that asks where to read. `log`: None while it is not started."""
    topic_id, partition = topic_partition
    return AcquirePartition(
        topic_id=topic_id,
        partition=partition,
        records_max=0,
        batch_size=batch_size,
        log_start_offset=-1 if log is None else log.log_start_offset,
    )


async def reset_offset(log: PartitionLog, reset: Reset, now_ms: int, *, is_read_committed: bool) -> int:
    """The start offset of a share partition that has none yet, proved by the log's owner (rule 15). Raises BmqError."""
    await log.prove_ownership()
    end_offset = log.last_stable_offset if is_read_committed else log.high_watermark
    if reset.strategy == EARLIEST:
        return log.log_start_offset
    if reset.strategy == LATEST or reset.ago_ms is None:
        return log.high_watermark
    found = await log.offset_for_timestamp(max(0, now_ms - reset.ago_ms), end_offset)
    return log.high_watermark if found is None else found[0]


async def read_views(
    shared: FetchResources, log: PartitionLog, offset: int, length_bytes_max: int, bound_offset: int
) -> Sequence[memoryview]:
    limit = shared.memory_reads.limit(length_bytes_max)
    tail = log.tail_read(offset, limit, bound_offset)
    if tail is not None:
        shared.counts.tail_bytes += sum(map(len, tail))
        return tail
    return await shared.memory_reads.read(log, offset, limit, bound_offset)


def _taken(
    batches: Sequence[ReadBatch], unseen: Sequence[OffsetRange], from_offset: int, records_max: int, mode: int
) -> tuple[int, int]:
    """(records that may be acquired, the offset at which acquiring `records_max` of them would end), if none is locked."""
    count = place = 0
    for batch in batches:
        while place < len(unseen) and unseen[place].last < batch.first_offset:
            place += 1
        if place < len(unseen) and unseen[place].first <= batch.first_offset:
            continue
        first_offset = max(batch.first_offset, from_offset)
        size = batch.last_offset - first_offset + 1
        if mode == RECORD_LIMIT and count + size > records_max:
            return records_max, first_offset + records_max - count
        count += size
        if count >= records_max:
            return min(count, records_max), batch.last_offset + 1
    return count, batches[-1].last_offset + 1
