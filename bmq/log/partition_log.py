"""Two ports to one partition for everything above the log. The broker's runtime implements both; tests use a fake.

The proxy appends and reads clients' records through a PartitionLog, wherever the owner is. Coordinators and the
controller keep their state in a ReplayableLog, which exists only in the owner's process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol
from uuid import UUID

from bmq.log.store import Buffer
from bmq.log.transactions import ActiveProducer, TransactionClaim
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.hot_produce import RecordError


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

    def append(
        self,
        records: memoryview,
        done: AppendDone,
        *,
        is_internal: bool = False,
        is_acks_all: bool = True,
        claim: TransactionClaim | None = None,
    ) -> None:
        """Check, place and write one or more whole record batches, back to back, in a writable buffer that is now ours.

        Their headers are rewritten in place. `done` is called exactly once: when the records are durable on every
        replica, or refused; possibly before this returns. `is_internal` allows control batches and skips the checks
        of client input. `is_acks_all`: if fewer than `min.insync.replicas` nodes hold the records, they are refused
        with NOT_ENOUGH_REPLICAS, or answered with NOT_ENOUGH_REPLICAS_AFTER_APPEND (they are in the log, at the offset
        given). Never raises for the peer's faults. `claim`: the transaction of transactional batches, which is verified
        with its coordinator before the first of them is placed (KIP-890); None: they are refused.
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
