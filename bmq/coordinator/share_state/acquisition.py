"""A member's request for records of one share partition, its result, and the locks that a release names. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence

from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_state.decisions import Given, Span, Wanted
from bmq.coordinator.share_state.holder import Holder
from bmq.dataclass import dataclass


@dataclass(slots=True)
class Acquisition:
    """What a member wants of one share partition: see AcquirePartition."""

    holder: Holder
    wanted: Wanted
    batches: Sequence[Span] = ()
    archive: Sequence[Span] = ()
    log_start_offset: int = -1
    reset_offset: int = -1
    hash_offset: int = -1
    key_hashes: bytes | bytearray | memoryview = b""


@dataclass(slots=True)
class Acquired:
    """See AcquiredPartition."""

    start_offset: int
    next_offset: int
    version: int
    lock_duration_ms: int
    given: Sequence[Given] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """Locks of a member: see ShareReleaseRequest. `node`: id and epoch; None: through any proxy."""

    member_id: str
    node: tuple[int, int] | None
    session_max: int
    locked_before_ms: int

    def is_of(self, holder: Holder) -> bool:
        """Whether a lock of this holder may be one of these."""
        if holder.member_id != self.member_id:
            return False
        return self.node is None or (
            (holder.node_id, holder.node_epoch) == self.node and holder.session <= self.session_max
        )

    def is_old(self, deadline_ms: float, now: Moment, lock_duration_ms: int) -> bool:
        """Whether a lock with this deadline is. It begins a lock duration before that; a renewal makes it younger."""
        return self.node is not None or (
            deadline_ms - lock_duration_ms - now.loop_ms < self.locked_before_ms - now.wall_ms
        )
