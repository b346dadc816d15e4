"""Explains why a share partition delivers nothing: the locks with their holders and deadlines, the records in back-off, and
the dead letters that wait.
"""

from __future__ import annotations

from typing import Final

from bmq.coordinator.config import RecordLimits
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.share_state.holds import Lock
from bmq.coordinator.share_state.partition import PartitionKey, SharePartition
from bmq.protocol.share_state_messages import ExplainedPartition, LockHolder

HOLDERS_MAX: Final = 100
"""Members of one partition that are named: those with the most records."""
REASON_CHARS_MAX: Final = 500
"""The longest reason why dead letters wait: other nodes and clients' names may be in it."""


def explained(
    key: PartitionKey, partition: SharePartition | None, limits: RecordLimits, now: Moment, why: str | None = None
) -> ExplainedPartition:
    """`partition`: None: it has no state. `why`: the group's dead letters could not be written the last time."""
    explained = ExplainedPartition(topic_id=key.topic_id, partition=key.partition, locks_max=limits.record_locks_max)
    if partition is None:
        return explained
    explained.state_epoch = partition.state_epoch
    explained.active_member, explained.active_epoch = partition.active.member_id, partition.active.epoch
    window = partition.window
    if window is None:
        return explained
    explained.start_offset, explained.window_end = window.start, window.end
    explained.first_available = window.first_available()
    explained.locked_count, explained.complete_count = window.locked, window.done
    waits_ms = [max(0, round(deadline_ms - now.loop_ms)) for deadline_ms in window.holds.delay_deadlines_ms()]
    explained.delayed_count = window.delayed
    explained.delayed_first_ms, explained.delayed_last_ms = min(waits_ms, default=0), max(waits_ms, default=0)
    if (dead := window.first_dead(1)) is not None:
        explained.archiving_count, explained.archiving_first = window.archiving, dead[0]
        explained.archiving_why = (why or "")[:REASON_CHARS_MAX]
    if partition.keys is not None:
        wait = partition.keys.wait(window)
        explained.key_members, explained.keys_waiting, explained.keys_read_to = wait
    by_member: dict[str, list[Lock]] = {}
    for lock in window.holds.all_locks():
        by_member.setdefault(lock.holder.member_id, []).append(lock)
    holders = [_holder(member_id, locks, now) for member_id, locks in by_member.items()]
    explained.holders = sorted(holders, key=lambda one: (-one.count, one.member_id))[:HOLDERS_MAX]
    return explained


def _holder(member_id: str, locks: list[Lock], now: Moment) -> LockHolder:
    return LockHolder(
        member_id=member_id,
        count=sum(lock.held for lock in locks),
        first=min(lock.first for lock in locks),
        last=max(lock.last for lock in locks),
        left_ms=max(0, round(max(lock.deadline_ms for lock in locks) - now.loop_ms)),
    )
