"""The two ports to one partition for all code above the log. The broker's runtime implements both; tests use a fake.

The proxy appends and reads clients' records through a PartitionLog, wherever the owner is. Coordinators and the controller keep
their state in a ReplayableLog, which exists only in the owner's process. A ProducedBatch is one append, from its request to its
result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import Final, NamedTuple, Protocol
from uuid import UUID

import structlog

from bmq.dataclass import dataclass
from bmq.log.store import Buffer
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.log.transactions import ActiveProducer, TransactionClaim
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_produce import RecordError
from bmq.protocol.record_batch import BatchHeader, parsed_header

ANY_EPOCH: Final = -1
"""The leader epoch of a batch that an owner of any epoch may take."""
ENDS_THE_PROCESS: Final = (SystemExit, KeyboardInterrupt)
"""Exceptions that end the process. As in asyncio's event loop, any other exception fails one callback only."""
FOLLOWERS_MAX: Final = 4
"""Most followers of a batch: each keeps its whole request in memory until the store answers."""
_SENT_AGAIN: Final = "the batch is still on its way, and was sent again by now"

_log = structlog.get_logger("bmq.log")


class TopicPartition(NamedTuple):
    """A partition, by its topic's id: a topic that is created again has another id."""

    topic_id: UUID
    partition: int


class AppendResult(NamedTuple):
    """The outcome of one produce to one partition, with the fields of ProduceResponse."""

    error_code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: Sequence[RecordError] = ()


AppendDone = Callable[[AppendResult], None]


class Receiver(Protocol):
    """Receives the results of batches, each once."""

    def answered(self, batch: ProducedBatch, result: AppendResult) -> None: ...


class AppendRequest(Receiver, Protocol):
    """The request that batches came with; its fields apply to all of them.

    `is_acks_all`: if fewer than `min.insync.replicas` nodes hold the records, they are refused with NOT_ENOUGH_REPLICAS, or
    answered with NOT_ENOUGH_REPLICAS_AFTER_APPEND (they are in the log, at the offset in the result). `is_answered`: False for
    acks=0, where a refused batch is lost. `is_internal`: an append of the server itself: control batches are allowed, and the
    checks of client input are skipped. `claim`: the transaction of transactional batches, which is verified with its coordinator
    before the first of them is placed (KIP-890); None: they are refused. `arrived_s`, `send_until_s` (the event loop's time):
    when the request came, and when the client will have given up, so that no waiting batch goes to a log any more.
    """

    is_acks_all: bool
    is_answered: bool
    is_internal: bool
    claim: TransactionClaim | None
    arrived_s: float
    send_until_s: float

    def is_wanted(self) -> bool:
        """Whether the client still waits. If it has disconnected, batches that are not appended yet fail."""


class Batch:
    """One record batch in flight into the log. `base_offset` is -1 until the partition's machine has placed it.

    `is_acks_all`: it is acknowledged only if `min.insync.replicas` nodes hold it.
    """

    __slots__ = ("base_offset", "is_acks_all", "offset_count", "size_bytes")

    def __init__(self, offset_count: int, size_bytes: int, *, is_acks_all: bool = True) -> None:
        self.offset_count = offset_count
        self.size_bytes = size_bytes
        self.base_offset = -1
        self.is_acks_all = is_acks_all

    @property
    def end_offset(self) -> int:
        """The offset behind the batch."""
        return self.base_offset + self.offset_count


class ProducedBatch(Batch):
    """One append to one partition, from its request to its result. It goes to one log at most: a retry is a new object.

    `records`: as received, in a writable buffer that the log may change in place. `header`: that of the one batch in them, None
    if it cannot be read. Once the log has checked them, it sets `view` and `header` to what it stores, and `offset_count` and
    `size_bytes`. `index`: the batch's place in the request. `leader_epoch`: the only epoch whose owner may take it; other owners
    refuse it with FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.

    `receiver` gets the result: the request, or an appender that has put itself in front of it. None: the result of a later batch
    of the same append counts for this one as well; that batch has this one, or one before it, as `first`. `followers`: retries of
    the same batch that came while it was in flight (rule 11). `number`: counts a partition's batches at their appender, in order.
    `position`: place in the segment file that it was written to last.
    """

    __slots__ = (
        "append_time_ms",
        "first",
        "followers",
        "header",
        "index",
        "leader_epoch",
        "number",
        "position",
        "receiver",
        "records",
        "request",
        "topic_partition",
        "view",
    )

    def __init__(
        self,
        request: AppendRequest,
        topic_partition: TopicPartition,
        records: memoryview,
        header: BatchHeader | None,
        index: int = 0,
        leader_epoch: int = ANY_EPOCH,
    ) -> None:
        self.request = request
        self.receiver: Receiver | None = request
        self.topic_partition = topic_partition
        self.records = self.view = records
        self.header = header
        self.index = index
        self.leader_epoch = leader_epoch
        self.is_acks_all = request.is_acks_all
        self.base_offset = self.position = self.append_time_ms = -1
        self.offset_count = self.size_bytes = self.number = 0
        self.first: ProducedBatch | None = None
        self.followers: list[ProducedBatch] | None = None

    def again(self, records: memoryview) -> ProducedBatch:
        """A copy of the append for another log. `records`: another buffer, as the first log may still write into this one."""
        batch = ProducedBatch(
            self.request, self.topic_partition, records, parsed_header(records), self.index, self.leader_epoch
        )
        batch.number, batch.receiver = self.number, self.receiver
        return batch

    def complete(self, result: AppendResult) -> None:
        """Report the result to the receiver and the followers; called once.

        An error of a receiver is logged only, because the batches behind this one must still be answered.
        """
        if self.receiver is not None:
            try:
                self.receiver.answered(self, result)
            except ENDS_THE_PROCESS:
                raise
            except BaseException:  # noqa: BLE001 a cancelled future's result() raises CancelledError, which is not an Exception
                _log.exception("append_callback_failed")
        if self.followers is not None:
            for follower in self.followers:
                follower.complete(result)

    def follow(self, again: ProducedBatch) -> None:
        """Answer `again`, a retry of the same batch, together with this one. The oldest of too many retries times out now."""
        if self.followers is None:
            self.followers = []
        self.followers.append(again)
        if len(self.followers) > FOLLOWERS_MAX:
            self.followers.pop(0).complete(AppendResult(ErrorCode.REQUEST_TIMED_OUT, message=_SENT_AGAIN))


class LoneAppend:
    """The AppendRequest of a single batch without a client's request. The function `done` gets its result."""

    def __init__(
        self,
        done: AppendDone,
        *,
        is_internal: bool = False,
        is_acks_all: bool = True,
        claim: TransactionClaim | None = None,
        is_answered: bool = True,
        send_until_s: float = inf,
        arrived_s: float = 0.0,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self.is_internal = is_internal
        self.is_acks_all = is_acks_all
        self.is_answered = is_answered
        self.claim = claim
        self.send_until_s = send_until_s
        self.arrived_s = arrived_s
        self.is_wanted = is_wanted
        self._done = done

    def answered(self, batch: ProducedBatch, result: AppendResult) -> None:
        self._done(result)


def internal_batch(topic_partition: TopicPartition, records: memoryview, done: AppendDone) -> ProducedBatch:
    """An append by the server itself. `records`: one or more whole record batches, back to back."""
    return ProducedBatch(LoneAppend(done, is_internal=True), topic_partition, records, None)


@dataclass(frozen=True, slots=True)
class Location:
    """Where to start reading for an offset: a batch boundary at or before it in one file (an extent, rule 13)."""

    path: str
    file_id: int
    position: int  # position of the batch that has the offset, or of one before it
    valid_bytes: int  # nothing at or past this position of the file may be served (closed length or HW position)
    base_offset: int  # first offset of the extent
    end_offset: int  # offset behind the extent's last valid one
    is_closed: bool


class Span(NamedTuple):
    """Whole batches of one file, between two batch boundaries that are known without reading the file."""

    path: str
    file_id: int
    position: int
    length_bytes: int
    base_offset: int  # base offset of the first batch; -1 if it is not known
    next_offset: int  # offset behind the last batch


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An entry of FetchResponse.aborted_transactions."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class WholeBatches:
    """Batches for a state machine's replay. `data`: whole batches, back to back; `base_offset`: of the first."""

    base_offset: int
    data: Buffer


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A state machine's encoded state after all records below `next_offset` (rule 16)."""

    next_offset: int
    data: bytes


class PartitionStarting(KafkaError):
    """The partition cannot start now because of the store. Its start is tried again."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, message)


class PartitionLog(Protocol):
    """One partition as its owner serves it. All methods are called on the owner's event loop."""

    topic_partition: TopicPartition

    @property
    def leader_epoch(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def compacted_offset(self) -> int:
        """Segments below this offset may be made by compaction, as far as this process knows; -1: none is."""

    def append(self, batch: ProducedBatch) -> None:
        """Check, place and write a batch. Its buffer belongs to the log from now on, and headers are rewritten in place.

        `batch.complete` is called exactly once: when the records are durable on every replica, or refused; perhaps before this
        returns. Bad input of a client raises nothing. A client's append is one whole record batch; an internal one is one or
        more, back to back.
        """

    async def active_producers(self) -> Sequence[ActiveProducer]:
        """The partition's active producers, for DescribeProducers (KIP-664). Raises KafkaError NOT_LEADER_OR_FOLLOWER."""

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        """Whole batches from memory. The first one has `offset`; none ends past `bound_offset` (HW or LSO).

        At least one batch if there is one below the bound, even if it is longer than `length_bytes_max` (KIP-74). () if there are
        none below the bound yet; None if the offset is not in memory.
        """

    async def locate(self, offset: int) -> Location:
        """Where a catch-up read for `offset` starts. Raises KafkaError OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR."""

    def span(self, offset: int, length_bytes_max: int, bound_offset: int) -> Span | None:
        """The batches to read for `offset`, from the one that has it (or one before it in its file) to a batch boundary.

        They have at most `length_bytes_max`, and none ends past `bound_offset`. None if this process does not know it at once.
        """

    async def offset_for_timestamp(self, timestamp_ms: int, bound_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record below the bound whose timestamp is at or past this one; None without one."""

    async def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the record with the greatest timestamp (ListOffsets -3, KIP-734); None for an empty log."""

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction] | None:
        """All aborted transactions that overlap [from, to), where `to` is at or below the last stable offset.

        None if this process does not know all of them; `find_aborted_transactions` asks the owner.
        """

    async def find_aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        """All aborted transactions that overlap [from, to), by the owner's answer. Raises KafkaError."""

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as in OffsetForLeaderEpoch (KIP-101, KIP-279); (-1, -1) if unknown."""

    async def delete_records(self, before_offset: int) -> int:
        """Raise the log start offset durably (-1: to the high watermark), and return it. Raises KafkaError."""

    async def delayed_records(self, after: Position, limit: int) -> DelayedPage:
        """The first `limit` pending delayed records behind the place `after`. Raises KafkaError."""

    async def prove_ownership(self) -> None:
        """Return only if this owner was still the owner at some moment after the call (rule 15). Raises FencedWriter."""

    def on_advance(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, when the high watermark moves or the state changes. Returns a function that cancels the call."""


class ReplayableLog(PartitionLog, Protocol):
    """One partition in its owner's process, as a state machine that keeps its state in it needs it."""

    async def read(self, offset: int, length_bytes_max: int) -> WholeBatches | None:
        """Whole batches from `offset` on, below the high watermark, from memory or from the store; for a replay.

        None if there are no records at or past `offset` yet. Raises KafkaError OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, and
        CorruptRecords for a damaged batch in the store.
        """

    async def latest_snapshot(self) -> StateSnapshot | None:
        """The newest state snapshot at or below the high watermark; None if the log alone has the whole state.

        Raises KafkaError, StoreError; StateDamaged if the state cannot be restored wholly, so that an operator has to decide.
        """

    async def save_snapshot(self, snapshot: StateSnapshot) -> None:
        """Write a snapshot to a file of this epoch's directory, name it in a new manifest, and drop older ones (rule 16).

        Closed segments that end at or below `next_offset` are dropped too, because the snapshot replaces them.
        """
