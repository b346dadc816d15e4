"""What a partition's owner looks after every second or so: rolling by age, idle segments, lost replicas, waits too long."""

from __future__ import annotations

from typing import Final

from bmq.broker import partition_events as ev
from bmq.broker.compaction.delegation import DelegatedCompaction
from bmq.broker.in_flight_batches import InFlightBatches
from bmq.broker.own_segment import OwnSegment
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.partition_states import AwaitingSegment, Mending, Writing
from bmq.broker.replica_guard import ReplicaGuard
from bmq.broker.segment_files import SegmentLifecycle
from bmq.log.config import NEVER_MS
from bmq.log.partition_log import Batch
from bmq.log.time_based_rolling import roll_due_ms

REST_S_MAX: Final = 10.0  # the wall clock may be set, and a job's reservation expires


class Upkeep:
    """The regular work of one partition. `due_s`: it need not be run before; an event sets it back: most of many partitions have nothing to do."""

    def __init__(
        self,
        partition: OwnedPartition,
        lifecycle: SegmentLifecycle,
        guard: ReplicaGuard,
        delegation: DelegatedCompaction,
    ) -> None:
        self._partition = partition
        self._lifecycle = lifecycle
        self._guard = guard
        self._delegation = delegation
        self._oldest_waiting: tuple[Batch | None, float] = (None, 0.0)
        self.due_s = 0.0

    def run(self, now_s: float, now_ms: int) -> None:
        state, tracker, feed = self._partition.state, self._guard.tracker, self._partition.machine.feed
        self._delegation.expire(now_ms)
        if tracker.unconfirmed:
            tracker.forget_expired(now_s)
        if type(state) is not Writing:
            if isinstance(state, (AwaitingSegment, Mending)):
                self._limit_wait(state.log, now_s)
            elif not tracker.unconfirmed:
                self.due_s = now_s + REST_S_MAX
            return
        self._guard.state_changed()
        segment = self._lifecycle.segments.get(state.segment.roll)
        if segment is None:
            return
        if segment.writer.is_broken and state.is_quiet:
            self._replace_broken(segment, now_s)
            return
        if tracker.is_search_due(state, segment, now_s):
            feed(ev.ReplicasDue(segment.roll))
            return
        index, config = segment.index, self._partition.config
        if segment.durability is not config.durability:
            # From now on acknowledged batches need the topic's new durability. The next segment may have the old one,
            # too.
            has_bytes = index is not None and index.valid_bytes
            feed(ev.RollDue(segment.roll) if has_bytes else ev.IdleDue(segment.roll))
            return
        roll_ms = self._roll_due_ms(segment)
        idle_due_s = segment.last_append_s + config.segment_idle_close_ms / 1000
        if roll_ms is not None and now_ms >= roll_ms:
            feed(ev.RollDue(segment.roll))
        elif now_s >= idle_due_s:
            feed(ev.IdleDue(segment.roll))
        elif not self._guard.is_on and state.replicas >= state.limits.replicas_wanted:
            roll_due_s = REST_S_MAX if roll_ms is None else (roll_ms - now_ms) / 1000
            self.due_s = min(idle_due_s, now_s + min(roll_due_s, REST_S_MAX))

    def _replace_broken(self, segment: OwnSegment, now_s: float) -> None:
        """Nothing is appended, so no append tells that a replica is lost: close the file, which the store then copies (rule 53)."""
        if not self._partition.context.broken_closes.take(now_s):
            return
        is_kept_open = self._partition.config.segment_idle_close_ms >= NEVER_MS
        if segment.written_bytes or is_kept_open:
            self._partition.machine.feed(ev.WriterBroken(segment.roll, is_resting=not is_kept_open))
        else:
            self._partition.machine.feed(ev.IdleDue(segment.roll))

    def _roll_due_ms(self, segment: OwnSegment) -> int | None:
        index = segment.index
        if index is None:
            return None
        base_ms = index.roll_base_ms
        return roll_due_ms(
            self._partition.config,
            opened_ms=segment.opened_ms,
            base_timestamp_ms=-1 if base_ms is None else base_ms,
            max_timestamp_ms=index.max_timestamp_ms,
            valid_bytes=index.valid_bytes,
            check_interval_ms=self._partition.context.settings.retention_check_interval_ms,
        )

    def _limit_wait(self, log: InFlightBatches, now_s: float) -> None:
        oldest, since_s = self._oldest_waiting
        if not log.waiting or oldest is not log.waiting[0]:
            self._oldest_waiting = (log.waiting[0] if log.waiting else None, now_s)
        elif now_s - since_s >= self._partition.context.settings.storage_wait_max_s:
            self._oldest_waiting = (None, 0.0)
            self._partition.machine.feed(ev.WaitExpired())
