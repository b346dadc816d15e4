"""Partition logs in memory: what the proxy, the coordinators and the controller are tested on.

`FakePartitionLog` implements bmq.log.partition_log.PartitionLog, `FakePartitions` bmq.proxy.partitions.Partitions.
Nothing is checked on append; batch headers are read for their lengths and counts and rewritten as the real log does.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from bmq.log.partition_log import (
    AbortedTransaction,
    AppendResult,
    Location,
    ProducedBatch,
    Span,
    StateSnapshot,
    TopicPartition,
    WholeBatches,
)
from bmq.log.store import FencedWriter
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.log.transactions import ActiveProducer, TransactionClaim
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from tests.fakes.store import FakeStore

# Base offset, length of what follows it, leader epoch, magic, CRC, attributes, last offset delta, first and greatest timestamp.
_HEADER = struct.Struct(">qiibIhiqq")
_OFFSET_AND_LENGTH_BYTES = 12
_LEADER_EPOCH_POSITION = 12


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch with its final header, and where its bytes begin in the log's only file."""

    base_offset: int
    end_offset: int
    timestamp_max_ms: int
    position: int
    data: bytes


class FakePartitionLog:
    """One partition, leader at once. Attributes a test may set:

    `is_acknowledging`: False keeps appends pending (high watermark does not move) until `acknowledge()`.
    `refuse_with`: an error code for every append from now on.
    `tail_start_offset`: `tail_read` knows nothing below it, which sends the reader to `locate` and the store.
    `last_stable_offset_bound`, `aborted`: an open transaction's first offset; AbortedTransactions to report, with the offsets
    of their markers. Below `aborted_from_offset` they have to be asked for; `asked_aborted`: the ranges of these questions.
    `is_owner`: False lets `prove_ownership` raise; `proof_count`: of its calls. `claims`: of all appends, in order.
    `producers`: what `active_producers` lists.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        store: FakeStore | None = None,
        leader_epoch: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.batches: list[StoredBatch] = []
        self.is_acknowledging = True
        self.refuse_with: ErrorCode | None = None
        self.is_short = False  # too few replicas for acks=all, known before the append
        self.is_short_after = False  # found out only when the records were in the log
        self.tail_start_offset = first_offset
        self.last_stable_offset_bound: int | None = None
        self.aborted: list[tuple[AbortedTransaction, int]] = []
        self.aborted_from_offset = 0
        self.asked_aborted: list[tuple[int, int]] = []
        self.is_owner = True
        self.proof_count = 0
        self.snapshots: list[StateSnapshot] = []
        self.claims: list[TransactionClaim | None] = []
        self.producers: list[ActiveProducer] = []
        self.path = (
            f"topics/{topic_partition.topic_id}/{topic_partition.partition}/{leader_epoch:08d}.open/00000000.log"
        )
        self._store = store
        self._first_offset = first_offset
        self._log_start_offset = first_offset
        self._high_watermark = first_offset
        self.compacted_offset = -1
        self._log_end_offset = first_offset
        self._length_bytes = 0
        self._pending: deque[tuple[int, int, ProducedBatch]] = deque()
        self._waiting: dict[object, Callable[[], None]] = {}
        if store is not None:
            store.put_file(self.path, b"", is_open=True)

    # --- the protocol

    @property
    def log_start_offset(self) -> int:
        return self._log_start_offset

    @property
    def high_watermark(self) -> int:
        return self._high_watermark

    @property
    def last_stable_offset(self) -> int:
        bound = self.last_stable_offset_bound
        return self._high_watermark if bound is None else min(bound, self._high_watermark)

    @property
    def log_end_offset(self) -> int:
        return self._log_end_offset

    def append(self, batch: ProducedBatch) -> None:
        self.claims.append(batch.request.claim)
        if self.refuse_with is not None:
            batch.complete(AppendResult(self.refuse_with))
            return
        if self.is_short and batch.is_acks_all:
            batch.complete(AppendResult(ErrorCode.NOT_ENOUGH_REPLICAS))
            return
        base_offset = self._log_end_offset
        self._place(batch.records)
        self._pending.append((base_offset, self._log_end_offset, batch))
        if self.is_acknowledging:
            self.acknowledge()

    async def delayed_records(self, after: Position, limit: int) -> DelayedPage:
        return DelayedPage(0, None, ())

    async def active_producers(self) -> Sequence[ActiveProducer]:
        return self.producers

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        if offset < max(self.tail_start_offset, self._log_start_offset) or offset > self._log_end_offset:
            return None
        return [memoryview(batch.data) for batch in self._select(offset, length_bytes_max, bound_offset)]

    async def locate(self, offset: int) -> Location:
        self._require_in_range(offset)
        index = min(self._index_of(offset), len(self.batches) - 1)
        valid_bytes = sum(len(b.data) for b in self.batches if b.end_offset <= self._high_watermark)
        return Location(
            path=self.path,
            file_id=0 if self._store is None else self._store.file_id_of(self.path),
            position=self.batches[index].position if self.batches else 0,
            valid_bytes=valid_bytes,
            base_offset=self._first_offset,
            end_offset=self._high_watermark,
            is_closed=False,
        )

    def span(self, offset: int, length_bytes_max: int, bound_offset: int) -> Span | None:
        """Known where a test says so."""
        return None

    async def read(self, offset: int, length_bytes_max: int) -> WholeBatches | None:
        self._require_in_range(offset)
        chosen = self._select(offset, length_bytes_max, self._high_watermark)
        if not chosen:
            return None
        return WholeBatches(chosen[0].base_offset, b"".join(batch.data for batch in chosen))

    async def latest_snapshot(self) -> StateSnapshot | None:
        usable = [s for s in self.snapshots if s.next_offset <= self._high_watermark]
        return usable[-1] if usable else None

    async def save_snapshot(self, snapshot: StateSnapshot) -> None:
        self.snapshots = [snapshot]

    async def offset_for_timestamp(self, timestamp_ms: int, bound_offset: int) -> tuple[int, int] | None:
        """The first batch's base offset; exact for batches of one record."""
        for batch in self.batches:
            if batch.timestamp_max_ms >= timestamp_ms and self._log_start_offset <= batch.base_offset < bound_offset:
                return batch.base_offset, batch.timestamp_max_ms
        return None

    async def max_timestamp(self) -> tuple[int, int] | None:
        visible = [
            b for b in self.batches if b.end_offset <= self._high_watermark and b.end_offset > self._log_start_offset
        ]
        if not visible:
            return None
        newest = max(visible, key=lambda b: (b.timestamp_max_ms, -b.base_offset))
        return newest.end_offset - 1, newest.timestamp_max_ms

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction] | None:
        return self._overlapping(from_offset, to_offset) if from_offset >= self.aborted_from_offset else None

    def _overlapping(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        return [t for t, last_offset in self.aborted if t.first_offset < to_offset and last_offset >= from_offset]

    async def find_aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        self.asked_aborted.append((from_offset, to_offset))
        return self._overlapping(from_offset, to_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        return (leader_epoch, self._log_end_offset) if leader_epoch == self.leader_epoch else (-1, -1)

    @property
    def epoch_starts(self) -> Sequence[tuple[int, int]]:
        return ((self.leader_epoch, self._first_offset),)

    async def delete_records(self, before_offset: int) -> int:
        target = self._high_watermark if before_offset == -1 else before_offset
        if target < 0 or target > self._high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        self._log_start_offset = max(self._log_start_offset, target)
        return self._log_start_offset

    async def prove_ownership(self) -> None:
        self.proof_count += 1
        if not self.is_owner:
            raise FencedWriter(self.path)

    def on_advance(self, wake: Callable[[], None]) -> Callable[[], None]:
        key = object()
        self._waiting[key] = wake
        return lambda: self._waiting.pop(key, None) and None

    # --- what a test does

    def acknowledge(self, count: int | None = None) -> None:
        """Answer the oldest `count` pending appends (None: all), in order, and wake who waits."""
        for _ in range(len(self._pending) if count is None else count):
            base_offset, end_offset, batch = self._pending.popleft()
            self._high_watermark = end_offset
            is_short = self.is_short_after and batch.is_acks_all
            code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if is_short else ErrorCode.NONE
            batch.complete(AppendResult(code, base_offset, -1, self._log_start_offset))
        self.wake()

    def fail_pending(self, code: ErrorCode) -> None:
        """Refuse everything pending and take it out of the log, as a fenced owner does."""
        pending, self._pending = self._pending, deque()
        self.batches = [b for b in self.batches if b.end_offset <= self._high_watermark]
        self._log_end_offset = self._high_watermark
        self._length_bytes = sum(len(b.data) for b in self.batches)
        if self._store is not None:
            self._store.truncate_file(self.path, self._length_bytes)
        for _, _, batch in pending:
            batch.complete(AppendResult(code))
        self.wake()

    def lose_from(self, end_offset: int, snapshots: Sequence[StateSnapshot]) -> None:
        """End there, with the snapshots of an earlier time: the log of an older checkpoint."""
        self.batches = [b for b in self.batches if b.end_offset <= end_offset]
        self.snapshots = list(snapshots)
        self._high_watermark = self._log_end_offset = end_offset
        self._length_bytes = sum(len(b.data) for b in self.batches)

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for wake in waiting.values():
            wake()

    @property
    def pending_count(self) -> int:
        return len(self._pending)

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    # --- inside

    def _place(self, records: memoryview) -> None:
        position = 0
        while position < len(records):
            _, length, _, _, _, _, last_delta, _, timestamp_max_ms = _HEADER.unpack_from(records, position)
            end = position + _OFFSET_AND_LENGTH_BYTES + length
            struct.pack_into(">q", records, position, self._log_end_offset)
            struct.pack_into(">i", records, position + _LEADER_EPOCH_POSITION, self.leader_epoch)
            data = bytes(records[position:end])
            end_offset = self._log_end_offset + last_delta + 1
            self.batches.append(
                StoredBatch(self._log_end_offset, end_offset, timestamp_max_ms, self._length_bytes, data)
            )
            self._log_end_offset = end_offset
            self._length_bytes += len(data)
            if self._store is not None:
                self._store.extend_file(self.path, data)
            position = end

    def _index_of(self, offset: int) -> int:
        return max(0, bisect_right(self.batches, offset, key=lambda batch: batch.base_offset) - 1)

    def _select(self, offset: int, length_bytes_max: int, bound_offset: int) -> list[StoredBatch]:
        chosen: list[StoredBatch] = []
        total_bytes = 0
        for batch in self.batches[self._index_of(offset) :]:
            if batch.end_offset <= offset:
                continue
            if batch.end_offset > bound_offset or (chosen and total_bytes + len(batch.data) > length_bytes_max):
                break
            chosen.append(batch)
            total_bytes += len(batch.data)
        return chosen

    def _require_in_range(self, offset: int) -> None:
        if not self._log_start_offset <= offset <= self._log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)


class FakePartitions:
    """Partition logs by topic id and number, made by `add`. A log in `idle` is started by `leader_of` only."""

    def __init__(self, store: FakeStore | None = None) -> None:
        self.logs: dict[TopicPartition, FakePartitionLog] = {}
        self.idle: set[TopicPartition] = set()
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.unwritten: dict[TopicPartition, int] = {}  # leader epochs of idle ones without a directory
        self._store = store

    def add(
        self, topic_id: UUID, partition: int = 0, *, leader_epoch: int = 0, first_offset: int = 0
    ) -> FakePartitionLog:
        key = TopicPartition(topic_id, partition)
        log = FakePartitionLog(key, store=self._store, leader_epoch=leader_epoch, first_offset=first_offset)
        self.logs[key] = log
        return log

    def ready(self, topic_partition: TopicPartition) -> FakePartitionLog | None:
        if topic_partition in self.idle or topic_partition in self.errors:
            return None
        return self.logs.get(topic_partition)

    async def prove_looks(self) -> bool:
        return True

    async def never_written(self, topic_partition: TopicPartition) -> int | None:
        """Only those in `unwritten`."""
        return self.unwritten.get(topic_partition)

    async def leader_of(self, topic_partition: TopicPartition) -> FakePartitionLog:
        if topic_partition in self.errors:
            raise KafkaError(self.errors[topic_partition])
        self.idle.discard(topic_partition)
        if topic_partition not in self.logs:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.logs[topic_partition]
