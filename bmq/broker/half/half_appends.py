"""Takes half messages, and decisions about them, out of produced batches and appends their announcement, at the owner."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.half.partition_half import UNDECIDED_MAX, PartitionHalf
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.record_errors import RecordsRefused, refuse_named
from bmq.broker.timers.announced_batches import place_produced
from bmq.broker.timers.dead_retries import DeadRetries
from bmq.broker.timers.holds import HeldAppends
from bmq.broker.timers.partition_timers import PartitionTimers
from bmq.dataclass import dataclass
from bmq.log.half.half_announcement import HalfRecord, PlacedDecision, encode_half
from bmq.log.half.half_headers import AskedDecision, HalfRefused, Outcome
from bmq.log.half.half_order import HalfDecision, HalfMessage, HalfOrder
from bmq.log.half.half_split import HalfSplit, split_half
from bmq.log.opened_batch import BatchTooLong
from bmq.log.partition_log import ProducedBatch
from bmq.log.timers.announcements import NamedBatch, Position
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.compression import Compression
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader
from bmq.records.records_twin import Damage


@dataclass(frozen=True, slots=True)
class Announced:
    """The half messages and decisions of one batch. Implements holds.LeadingAnnouncement."""

    halves: Sequence[HalfRecord]
    decisions: Sequence[PlacedDecision]
    order: HalfOrder
    due_order: DueOrder
    now_ms: int
    codec: Compression = Compression.NONE
    level: int | None = None

    def announcement(self, behind: NamedBatch, distance: int) -> bytearray:
        return encode_half(
            self.halves,
            self.decisions,
            behind,
            self.now_ms,
            distance=distance,
            codec=self.codec,
            level=self.level,
        )

    def placed(self, start_offset: int, base_offset: int, end_offset: int) -> None:
        halves = [
            HalfMessage(base_offset + half.offset_delta, start_offset, self.now_ms, half.check_id)
            for half in self.halves
        ]
        decided = [
            HalfDecision(one.offset, one.outcome, Position(one.due_ms, base_offset + one.offset_delta))
            for one in self.decisions
        ]
        self.order.place(halves, decided, start_offset, end_offset)
        committed = [Pending(*one.position, start_offset) for one in decided if one.outcome is Outcome.COMMIT]
        if committed:
            self.due_order.place_kept(committed, end_offset)


class HalfAppends:
    """Appends produced batches with half messages, decisions or delayed records (`bmq.half.enable`, `bmq.delay.enable`)."""

    def __init__(
        self,
        partition: OwnedPartition,
        timers: PartitionTimers,
        half: PartitionHalf,
        refusals: BatchRefusals,
        dead: DeadRetries,
    ) -> None:
        self._partition = partition
        self._timers = timers
        self._half = half
        self._held = HeldAppends(partition, timers, refusals, dead)
        self._refusals = refusals

    def check(self, header: BatchHeader) -> None:
        """Refuse batches of transactions. Raises KafkaError POLICY_VIOLATION."""
        if self._partition.config.is_delay_enabled:
            self._held.check(header)
        elif header.attributes & TRANSACTIONAL:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "a topic with bmq.half.enable takes no records of a transaction"
            )

    def take(self, batch: ProducedBatch, header: BatchHeader, now_ms: int) -> bool:
        """Take over a batch with half messages, decisions or delayed records, as HeldAppends.take does. Raises KafkaError."""
        config = self._partition.config
        if not config.is_half_enabled:
            return self._held.take(batch, header, now_ms)
        try:
            found = split_half(
                batch.view,
                header,
                _Checked(self._half.order),
                has_delay=config.is_delay_enabled,
                level=config.compression_level,
            )
        except BatchTooLong as error:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from error
        except Damage as error:  # in a compressed batch that was not validated at append
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        if found is None:
            return config.is_delay_enabled and self._held.take(batch, header, now_ms)
        if found.refused:
            refuse_named(found.refused)
        self._take(batch, header, found, now_ms)
        return True

    def _take(self, batch: ProducedBatch, came: BatchHeader, found: HalfSplit, now_ms: int) -> None:
        config, order = self._partition.config, self._timers.order
        # Producers retry after NOT_ENOUGH_REPLICAS.
        if order is None:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "bmq.half.enable is taking effect in this partition")
        if found.halves and len(self._half.order) + len(found.halves) > UNDECIDED_MAX:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{UNDECIDED_MAX} half messages wait in this partition, no more are taken",
            )
        view = memoryview(found.visible)
        header = BatchHeader.parse(view)
        batch.view, batch.header, batch.size_bytes = view, header, len(view)
        due_ms = max(now_ms, order.floor_ms)
        announced = Announced(
            found.halves,
            [PlacedDecision(one.asked.offset, due_ms, one.offset_delta, one.asked.outcome) for one in found.decisions],
            self._half.order,
            order,
            now_ms,
            came.compression,
            config.compression_level,
        )
        has_news = bool(found.halves or found.decisions)
        if config.is_delay_enabled and header.record_count:
            try:
                if self._held.take(batch, header, now_ms, announced if has_news else None):
                    return
            except RecordsRefused as error:
                raise _at_their_places(error, found.kept_indexes) from error
        self._place(batch, announced if has_news else None, now_ms)

    def _place(self, batch: ProducedBatch, announced: Announced | None, now_ms: int) -> None:
        header = batch.header
        assert header is not None

        def placed(start_offset: int) -> None:
            assert announced is not None
            announced.placed(start_offset, start_offset + 1, start_offset + 1 + batch.offset_count)

        announcements = [] if announced is None else [announced.announcement(NamedBatch.of(header), 1)]
        place_produced(self._partition, announcements, batch, placed, self._refusals, now_ms)


class _Checked:
    """Checks a batch's decisions as HalfOrder.check does, and against each other."""

    def __init__(self, order: HalfOrder) -> None:
        self._order = order
        self._asked: dict[int, Outcome] = {}

    def __call__(self, asked: AskedDecision) -> bool:
        before = self._asked.get(asked.offset)
        if before is asked.outcome:
            return False
        if before is not None:
            raise HalfRefused(f"the half message {asked.offset} is both committed and rolled back")
        is_new = self._order.check(asked)
        self._asked[asked.offset] = asked.outcome
        return is_new


def _at_their_places(error: RecordsRefused, indexes: Sequence[int]) -> RecordsRefused:
    errors = [one._replace(batch_index=indexes[one.batch_index]) for one in error.record_errors]
    return RecordsRefused(error.code, str(error), errors)
