"""A proxy's copy of a partition that another node owns: offsets, epochs, newest batches. It never goes back. Pure.

Aborted transactions come with every update of the high watermark, so all with a marker in [`aborted_from_offset`, high
watermark) are known; the last stable offset that comes with them is below every transaction whose end is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from bmq.broker.tail_cache import PartitionTail
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.epoch_history import EpochHistory
from bmq.log.partition_log import AbortedTransaction
from bmq.protocol.internal_messages import EpochStart, TailPart
from bmq.protocol.record_batch import batches
from bmq.protocol.wire import Buffer

_END: Final = 2**63 - 1
ABORTED_MAX: Final = 1_000
"""Aborted transactions to keep of one partition, the newest, once twice as many are known; 40 bytes each."""


class RemoteState:
    """`tail`: an empty one; its batches are views of the frames that brought them."""

    __slots__ = (
        "_aborted",
        "_epochs",
        "_tail",
        "_tail_end_offset",
        "aborted_from_offset",
        "compacted_offset",
        "high_watermark",
        "last_stable_offset",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, tail: PartitionTail) -> None:
        self._tail = tail
        self._tail_end_offset = -1
        self._epochs = EpochHistory()
        self._aborted = AbortedTransactions()
        self.aborted_from_offset = 0
        self.compacted_offset = -1
        self.log_start_offset = 0
        self.high_watermark = 0
        self.last_stable_offset = 0
        self.log_end_offset = 0

    def learn(
        self, *, log_start_offset: int, high_watermark: int, last_stable_offset: int, log_end_offset: int
    ) -> bool:
        """Apply the owner's offsets; lower ones are from an older answer. Returns whether any of them moved."""
        before = self._offsets()
        if log_start_offset > self.log_start_offset:
            self.log_start_offset = log_start_offset
            self._tail.drop_below(log_start_offset)
            self._aborted.drop_before(log_start_offset)
        self.high_watermark = max(self.high_watermark, high_watermark)
        self.last_stable_offset = min(max(self.last_stable_offset, last_stable_offset), self.high_watermark)
        self.log_end_offset = max(self.log_end_offset, log_end_offset, self.high_watermark)
        return self._offsets() != before

    def learn_aborted(self, encoded: Buffer, from_offset: int) -> None:
        """Add transactions whose marker is at or above our high watermark; call this before `learn` moves that.

        `from_offset`: transactions with a marker below it were left out; -1: none was. Raises CorruptParts.
        """
        known_offset = self.high_watermark
        if from_offset > known_offset:
            self._aborted = AbortedTransactions()
            self._know_aborted_from(from_offset)
        if encoded:
            for entry in AbortedTransactions.decode(encoded):
                if entry.last_offset >= known_offset:  # answers may overtake each other
                    self._aborted.add(entry)
            if len(self._aborted) > 2 * ABORTED_MAX:
                from_offset = self.aborted_from_offset
                self._aborted, from_offset = self._aborted.newest(from_offset, _END, ABORTED_MAX)
                self._know_aborted_from(from_offset)

    def learn_compacted(self, offset: int) -> None:
        """Compaction has rewritten the log below: it drops markers, and what is known here of their transactions is wrong
        then. So readers below ask the owner, and find no older batches here."""
        self.compacted_offset = max(self.compacted_offset, offset)
        if offset > self.aborted_from_offset:
            self._know_aborted_from(offset)

    def _know_aborted_from(self, offset: int) -> None:
        """The owner is asked below. Its answer goes with its files: a transaction of ours may be forgotten there."""
        self.aborted_from_offset = offset
        self._tail.drop_below(offset)

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction] | None:
        """Like PartitionLog.aborted_transactions."""
        known_from = max(self.aborted_from_offset, self.log_start_offset)
        if from_offset < known_from or to_offset > self.last_stable_offset:
            return None
        return self._aborted.overlapping(from_offset, to_offset)

    def learn_epochs(self, starts: Iterable[EpochStart]) -> None:
        """Set the epochs to all that the owner knows."""
        self._epochs = EpochHistory((one.leader_epoch, one.start_offset) for one in starts)

    def take(self, part: TailPart) -> bool:
        """Apply news from the tail stream: whole batches, and offsets that go with them. Returns whether any offset
        moved.

        Raises CorruptRecords for a malformed run of batches, CorruptParts for a malformed table of aborted
        transactions.
        """
        if part.epochs:
            self.learn_epochs(part.epochs)
        if part.records:
            records = memoryview(part.records).toreadonly()
            for position, header in batches(records):
                if header.end_offset > self._tail_end_offset:
                    end_offset = header.end_offset
                    self._tail.append(
                        header.base_offset, end_offset, records[position : position + header.size_bytes], position
                    )
                    self._tail_end_offset = end_offset
            # An answer of another connection, or this part itself, may tell of a compaction that these batches precede.
            self._tail.drop_below(self.aborted_from_offset)
        self.learn_compacted(part.compacted_offset)
        self.learn_aborted(part.aborted, part.aborted_from_offset)
        return self.learn(
            log_start_offset=part.log_start_offset,
            high_watermark=part.high_watermark,
            last_stable_offset=part.last_stable_offset,
            log_end_offset=part.log_end_offset,
        )

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        """Like PartitionLog.tail_read."""
        return self._tail.read(offset, length_bytes_max, bound_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """Like PartitionLog.epoch_end_offset."""
        return self._epochs.end_offset_for(leader_epoch, self.high_watermark)

    def clear(self) -> None:
        """Drop the batches and all aborted transactions: readers under way have to ask the owner for those."""
        self._tail.clear()
        self._aborted = AbortedTransactions()
        self.aborted_from_offset = _END

    def _offsets(self) -> tuple[int, int, int, int]:
        return self.log_start_offset, self.high_watermark, self.last_stable_offset, self.log_end_offset
