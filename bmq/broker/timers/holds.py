"""Takes delayed records out of produced batches and appends them as held records, at the partition's owner."""

from __future__ import annotations

from functools import partial
from typing import Final, Protocol

from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.record_errors import refuse_named
from bmq.broker.timers.announced_batches import place_produced
from bmq.broker.timers.dead_retries import DeadRetries
from bmq.broker.timers.partition_timers import PartitionTimers
from bmq.log.opened_batch import BatchTooLong
from bmq.log.partition_log import ProducedBatch
from bmq.log.timers.announcements import NamedBatch, encode_held
from bmq.log.timers.holding import Delays, RefusedDue, Split, split
from bmq.log.timers.retrying import Retries, split_retries
from bmq.log.timers.waiting_records import held_at
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader
from bmq.protocol.retry_topics import LEVELS_CONFIG, retry_topic_of
from bmq.records.records_twin import Damage

WINDOW_MAX: Final = 200_000
"""Most records of a partition that are in memory and in no run. Runs are written from half as many on (WINDOW_PRESSED)."""


class LeadingAnnouncement(Protocol):
    """A further announcement for a produced batch, which stands in front of the announcement of its delayed records."""

    def announcement(self, behind: NamedBatch, distance: int) -> bytearray:
        """The control batch, for the batch `behind`. `distance`: that batch's base offset minus the control batch's."""

    def placed(self, start_offset: int, base_offset: int, end_offset: int) -> None:
        """The control batch was placed at `start_offset`, and the produced batch at [base_offset, end_offset)."""


class HeldAppends:
    """Appends produced batches that have delayed records (topics with `bmq.delay.enable`), and all batches of retry topics."""

    def __init__(
        self, partition: OwnedPartition, timers: PartitionTimers, refusals: BatchRefusals, dead: DeadRetries
    ) -> None:
        self._partition = partition
        self._dead = dead
        self._timers = timers
        self._refusals = refusals

    def check(self, header: BatchHeader) -> None:
        """Refuse batches of transactions. Raises KafkaError POLICY_VIOLATION."""
        if header.attributes & TRANSACTIONAL:
            name = LEVELS_CONFIG if self._partition.config.retry_levels_ms else "bmq.delay.enable"
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"a topic with {name} takes no records of a transaction")

    def take(
        self, batch: ProducedBatch, header: BatchHeader, now_ms: int, leading: LeadingAnnouncement | None = None
    ) -> bool:
        """Take over `batch` if it has records to hold, or cancellations. Returns whether it did.

        False: the caller places the batch as it is. True: the batch was placed, or answered with an error. `batch` has passed all
        other checks. `leading`: a further announcement to place in front. Raises KafkaError if the batch is refused.
        """
        partition, timers = self._partition, self._timers
        config = partition.config
        floor_ms = now_ms if timers.order is None else timers.order.floor_ms
        lookups = None if timers.lifecycle is None else timers.lifecycle.lookups
        try:
            found: Split | None
            if config.retry_levels_ms:
                found = self._retries(batch, header, now_ms, floor_ms)
            else:
                delays = Delays(now_ms, config.delay_max_ms, floor_ms)
                if timers.order is not None and lookups is not None:
                    lookups.unknown.clear()
                    why_not = partial(timers.order.why_not_cancelled, is_in_run=lookups.is_in_run)
                    delays = delays._replace(why_not=why_not)
                found = split(batch.view, header, delays, config.compression_level)
        except BatchTooLong as error:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
        except Damage as error:  # of a compressed batch that the topic does not have validated
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        if found is None:
            return False
        if found.refused:
            refuse_named(found.refused)
        if found.cancels and lookups is not None and lookups.unknown:
            lookups.look_up(lookups.unknown)
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "the delayed record to cancel is being looked up: send it again"
            )
        self._hold(batch, header, found, now_ms, leading)
        return True

    def _retries(self, batch: ProducedBatch, header: BatchHeader, now_ms: int, floor_ms: int) -> Split:
        """The records of a retry topic's batch, all held; refused where no dead letter could be written. Raises BatchTooLong."""
        config, topic = self._partition.config, retry_topic_of(self._partition.topic_name)
        retries = Retries(config.retry_levels_ms, "" if topic is None else topic.source, now_ms, floor_ms)
        found = split_retries(batch.view, header, retries, config.compression_level)
        why = self._dead.refusal(found.given_up)
        if why is None:
            return found.split
        return Split(bytearray(), [], [RefusedDue(one.batch_index, why) for one in found.given_up])

    def _hold(
        self,
        batch: ProducedBatch,
        came: BatchHeader,
        found: Split,
        now_ms: int,
        leading: LeadingAnnouncement | None,
    ) -> None:
        partition, order = self._partition, self._timers.order
        # Producers retry after NOT_ENOUGH_REPLICAS.
        if order is None:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "delayed delivery is taking effect in this partition")
        if found.held and order.window_count + len(found.held) > WINDOW_MAX:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{WINDOW_MAX} delayed records of this partition are in memory, and wait to be written to runs",
            )
        if found.held and self._timers.lifecycle is not None and self._timers.lifecycle.is_behind:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS, "delayed records of this partition wait to be written to runs"
            )
        if found.cancels and order.cancels_count + len(found.cancels) > WINDOW_MAX:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{WINDOW_MAX} cancellations wait in this partition")
        view = memoryview(found.visible)
        header = BatchHeader.parse(view)
        batch.view, batch.header, batch.size_bytes = view, header, len(view)
        announcements = [
            encode_held(
                found.held, NamedBatch.of(header), came.compression, partition.config.compression_level, found.cancels
            )
        ]
        if leading is not None:
            announcements.insert(0, leading.announcement(NamedBatch.of(header), 2))

        def placed(start_offset: int) -> None:
            hold_offset = start_offset + len(announcements) - 1
            first = hold_offset + 1
            end_offset = first + batch.offset_count
            if leading is not None:
                leading.placed(start_offset, first, end_offset)
            order.place(
                hold_offset,
                held_at(found.held, first, hold_offset),
                [cancel.target for cancel in found.cancels],
                end_offset,
            )

        place_produced(partition, announcements, batch, placed, self._refusals, now_ms)
