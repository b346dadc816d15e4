"""Two ports to one partition for everything above the log. The broker's runtime implements both; tests use a fake.

The proxy appends and reads clients' records through a PartitionLog, wherever the owner is. Coordinators and the
controller keep their state in a ReplayableLog, which exists only in the owner's process. A ProducedBatch is one append, from
the request to its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple, Protocol
from uuid import UUID

import structlog

from bmq.log.store import Buffer
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.log.transactions import ActiveProducer, TransactionClaim
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_produce import RecordError
from bmq.protocol.record_batch import BatchHeader, parsed_header

ANY_EPOCH: Final = -1
"""The leader epoch of a batch that any owner may take."""
ENDS_THE_PROCESS: Final = (SystemExit, KeyboardInterrupt)
"""As in the event loop: any other exception is the failure of one callback."""
FOLLOWERS_MAX: Final = 4
"""Each keeps its whole request in memory until the store answers."""
_SENT_AGAIN: Final = "the batch is still on its way, and was sent again by now"

_log = structlog.get_logger("bmq.log")


class TopicPartition(NamedTuple):
    """A partition of one incarnation of a topic."""

    topic_id: UUID
    partition: int


class AppendResult(NamedTuple):
    """Outcome of one produce to one partition, in the fields of ProduceResponse."""

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
    """What a batch came with, and what holds for all batches of it.

    `is_acks_all`: if fewer than `min.insync.replicas` nodes hold the records, they are refused with NOT_ENOUGH_REPLICAS, or
    answered with NOT_ENOUGH_REPLICAS_AFTER_APPEND (they are in the log, at the offset given). `is_answered`: False with
    acks=0: a batch that is refused is lost. `is_internal`: an append of the server itself; control batches are allowed and
    the checks of client input are skipped. `claim`: the transaction of transactional batches, which is verified with its
    coordinator before the first of them is placed (KIP-890); None: they are refused. `arrived_s`, `send_until_s` (the
    loop's time): when it came, and after when no waiting batch goes to a log, as the client will have given up.
    """

    is_acks_all: bool
    is_answered: bool
    is_internal: bool
    claim: TransactionClaim | None
    arrived_s: float
    send_until_s: float

    def is_wanted(self) -> bool:
        """False once the client has disconnected without an answer; a batch still waiting then fails."""


class Batch:
    """One record batch on its way into the log. `base_offset` is -1 until the machine has placed it.

    `is_acks_all`: its producer wants it on `min.insync.replicas` nodes before it hears of a success.
    """

    __slots__ = ("base_offset", "is_acks_all", "offset_count", "size_bytes")

    def __init__(self, offset_count: int, size_bytes: int, *, is_acks_all: bool = True) -> None:
        self.offset_count = offset_count
        self.size_bytes = size_bytes
        self.base_offset = -1
        self.is_acks_all = is_acks_all

    @property
    def end_offset(self) -> int:
        """The offset that follows the batch."""
        return self.base_offset + self.offset_count


class ProducedBatch(Batch):
    """One append of one partition, from its request to its result. It goes to one log at most: a retry is a new one.

    `records`: as they came, in a writable buffer that the log may change in place; `header`: of the one batch in them, None
    while they have no header that can be read. A log that has checked them sets `view` and `header` to what it stores, and
    `offset_count`, `size_bytes`. `index`: its place in the request. `leader_epoch`: the only one that may take it; any
    other owner refuses it with FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.

    `receiver` gets the result: the request, unless an appender has put itself in front of it. None: a later batch of the
    same append is answered for this one, and has it, or one before it, as `first`. `followers` are produces of the same
    batch sent again while it was on its way (rule 11). `number` counts up in the order of a partition's batches at their
    appender. `position`: its place in the segment file it was written to last.
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
        """The same for another log, with its records in another buffer: the first log may still write into this one."""
        batch = ProducedBatch(
            self.request, self.topic_partition, records, parsed_header(records), self.index, self.leader_epoch
        )
        batch.number, batch.receiver = self.number, self.receiver
        return batch

    def complete(self, result: AppendResult) -> None:
        """Report the result, also to those that sent the same batch again; called once.

        If a receiver fails, that is its own bug; the batches behind this one must still be answered.
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
        """The same batch was sent again. Keep only the newest followers: the producer has retried since the others."""
        if self.followers is None:
            self.followers = []
        self.followers.append(again)
        if len(self.followers) > FOLLOWERS_MAX:
            self.followers.pop(0).complete(AppendResult(ErrorCode.REQUEST_TIMED_OUT, message=_SENT_AGAIN))


class LoneAppend:
    """The AppendRequest of one batch, whose result a function gets: an append that no client's request stands for."""

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
    """One or more whole record batches, back to back, that the server itself appends."""
    return ProducedBatch(LoneAppend(done, is_internal=True), topic_partition, records, None)


@dataclass(frozen=True, slots=True)
class Location:
    """Where to start reading for an offset: a batch boundary at or before it, in one file (an extent, rule 13)."""

    path: str
    file_id: int
    position: int  # of the batch that holds the offset, or of one before it
    valid_bytes: int  # nothing at or past this position of the file may be served (closed length or HW position)
    base_offset: int  # first offset the extent holds
    end_offset: int  # offset that follows the extent's last valid one
    is_closed: bool


class Span(NamedTuple):
    """Whole batches of one file, between two boundaries that are known without reading it."""

    path: str
    file_id: int
    position: int
    length_bytes: int
    base_offset: int  # of the first batch; -1 when that is not known
    next_offset: int  # follows the last batch


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An entry of FetchResponse.aborted_transactions."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class WholeBatches:
    """A run of batches for a state machine's replay: `data` whole batches back to back, starting at `base_offset`."""

    base_offset: int
    data: Buffer


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """A state machine's state after replaying everything below `next_offset` (rule 16)."""

    next_offset: int
    data: bytes


class PartitionStarting(KafkaError):
    """The partition cannot start now because of the store; it keeps trying."""

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
        """Below it segments were made by compaction, as far as that is known here; -1: nowhere."""

    def append(self, batch: ProducedBatch) -> None:
        """Check, place and write its records, whose buffer is now ours. Headers are rewritten in place.

        `batch.complete` is called exactly once: when the records are durable on every replica, or refused; possibly before
        this returns. Never raises for the peer's faults. Of a client one whole record batch; internal ones are one or more,
        back to back.
        """

    async def active_producers(self) -> Sequence[ActiveProducer]:
        """For DescribeProducers (KIP-664). Raises KafkaError NOT_LEADER_OR_FOLLOWER."""

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        """Whole batches from memory, the first containing `offset`, none ending past `bound_offset` (HW or LSO).

        At least one batch when there is one below the bound, even if it is longer than `length_bytes_max` (KIP-74).
        () when there is nothing below the bound yet; None when the offset is not in memory.
        """

    async def locate(self, offset: int) -> Location:
        """Where a catch-up read for `offset` starts. Raises KafkaError OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR."""

    def span(self, offset: int, length_bytes_max: int, bound_offset: int) -> Span | None:
        """Batches to read for `offset`: from the one that holds it, or one before it in its file, to a batch boundary.

        No more than `length_bytes_max`, and none ending past `bound_offset`. None when that is not known at once here.
        """

    async def offset_for_timestamp(self, timestamp_ms: int, bound_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with a timestamp at or past this one, below the bound; None if none."""

    async def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the record with the greatest timestamp (ListOffsets -3, KIP-734); None when empty."""

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction] | None:
        """All aborted transactions overlapping [from, to), where `to` is at or below the last stable offset.

        None: not all are known here; `find_aborted_transactions` asks the owner.
        """

    async def find_aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        """As `aborted_transactions`, answered by the owner. Raises KafkaError."""

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) as OffsetForLeaderEpoch answers it (KIP-101, KIP-279); (-1, -1) when unknown."""

    async def delete_records(self, before_offset: int) -> int:
        """Raise the log start offset (-1: to the high watermark); the new one, durable. Raises KafkaError."""

    async def delayed_records(self, after: Position, limit: int) -> DelayedPage:
        """Records that wait for their due time behind this place in their order, `limit` at most. Raises KafkaError."""

    async def prove_ownership(self) -> None:
        """Rule 15: returns only if this owner was the owner at some moment after the call. Raises FencedWriter."""

    def on_advance(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once at the next move of the high watermark, or change of state; returns how to cancel it."""


class ReplayableLog(PartitionLog, Protocol):
    """One partition in its owner's process, with what a state machine stored in it needs."""

    async def read(self, offset: int, length_bytes_max: int) -> WholeBatches | None:
        """Whole batches from `offset` on, below the high watermark, for replay: from memory or from the store.

        None when there is nothing at or past `offset` yet. Raises KafkaError OFFSET_OUT_OF_RANGE, KAFKA_STORAGE_ERROR, and
        CorruptRecords for a batch in the store that is damaged.
        """

    async def latest_snapshot(self) -> StateSnapshot | None:
        """The newest state snapshot at or below the high watermark; None: the log alone has the whole state.

        Raises KafkaError, StoreError; StateDamaged when the state cannot be made whole: then an operator has to decide.
        """

    async def save_snapshot(self, snapshot: StateSnapshot) -> None:
        """Write it as a file of this epoch's directory and name it in a new manifest; older ones are dropped (rule 16).

        Closed segments that end at or below `next_offset` are dropped too: for state machines the snapshot replaces them.
        """
