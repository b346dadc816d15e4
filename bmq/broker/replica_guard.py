"""Whether acks=all has to be refused: the open segment is on too few nodes, or an earlier batch may be."""

from __future__ import annotations

import asyncio

from bmq.broker.min_insync_tracker import MinInsyncTracker
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_states import Writing
from bmq.protocol.errors import BmqError
from bmq.protocol.record_batch import BatchHeader


class ReplicaGuard:
    """While `is_on` is False acks=all is never refused, so callers need not ask."""

    __slots__ = ("_loop", "_partition", "is_on", "tracker")

    def __init__(self, partition: OwnedPartition) -> None:
        self._partition = partition
        self._loop = asyncio.get_running_loop()
        self.tracker = MinInsyncTracker(partition.context)
        self.is_on = False

    def state_changed(self) -> None:
        self.is_on = self.is_short() or bool(self.tracker.unconfirmed)

    def is_short(self) -> bool:
        """Whether the open segment is on too few nodes for acks=all."""
        state = self._partition.state
        return isinstance(state, Writing) and state.is_short

    def note_unconfirmed(self, header: BatchHeader, base_offset: int) -> None:
        """A batch of this producer is in the log, perhaps on too few nodes."""
        self.tracker.note_unconfirmed(header, base_offset, self._loop.time())
        self.is_on = True

    def refuses(self, records: memoryview) -> bool:
        """Whether the open segment is on too few nodes, or an earlier batch of the same producer is unconfirmed.

        Only a producer's last few batches are remembered. If more were written after an unconfirmed one, the next retry
        of that one could no longer be told from a batch that is out of order.
        """
        if self.is_short():
            return True
        if not self.tracker.unconfirmed:
            self.is_on = False
            return False
        try:
            header = BatchHeader.parse(records)
        except BmqError:
            return False  # the usual checks will refuse it with the right error
        if not self.tracker.is_unconfirmed(header, self._loop.time()):
            return False
        try:
            return self._partition.producers.check(header) is None
        except BmqError:
            return True  # out of order, because the one before it was refused
