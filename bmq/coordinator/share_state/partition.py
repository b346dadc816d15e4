"""One share partition: what its records say, and the appends about it that are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, NamedTuple
from uuid import UUID

from bmq.coordinator.config import RecordLimits
from bmq.coordinator.runtime.moment import NEVER_MS, Moment
from bmq.coordinator.share_state.config import LOCK_DURATION_MAX_MS
from bmq.coordinator.share_state.holds import HOLDS_MAX, NO_HOLD
from bmq.coordinator.share_state.keys import PartitionKeys
from bmq.coordinator.share_state.window import (
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    ARCHIVING,
    ARCHIVING_SPENT,
    AVAILABLE,
    DELAYED,
    RESERVED,
    SPAN_MAX,
    Window,
)
from bmq.protocol.dead_letters import DeadReason
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.retry_backoff import BACKOFF_MAX_MS
from bmq.protocol.share_state_records import LockedRecords, SnapshotValue, StateBatch, UpdateValue

NONE_AVAILABLE = -1
"""As the next offset to read: too many records are locked."""
NO_START = -1
REACH_MAX = 2 * SPAN_MAX
"""Offsets from the start to the last one that a record may name, unless all from the start on are done."""
OFFSET_MAX = 2**63 - 2
_DONE = (ACKNOWLEDGED, ARCHIVED)
_WRITTEN_STATES = frozenset({AVAILABLE, ARCHIVING, *_DONE})


class PartitionKey(NamedTuple):
    """Names a share partition."""

    group_id: str
    topic_id: UUID
    partition: int


class ActiveMember(NamedTuple):
    """The only member that may acquire, since this epoch of the group; epoch -1: no member was named yet."""

    epoch: int = -1
    member_id: str = ""


class SharePartition:
    """`window`: None until the start offset is found. `version`: rises when more can be acquired.

    `barrier`: the append in flight that begins the state anew or deletes it; nothing is decided before it has ended.
    `last_append`: of the newest append in flight about records. `update_key`: of its changes' records, encoded; empty until
    it is needed. `active`: counts while the group has one active member. `keys`: while it keeps the order of each key.
    `oldest`: the oldest record that was given and is not done, and since when (loop's clock) it is the oldest; None: all
    that was given is done. A new owner counts from its start.
    `wake_ms`: when its shard looks for locks and delays that are over (loop's clock).
    """

    __slots__ = (
        "active",
        "barrier",
        "key",
        "keys",
        "last_append",
        "oldest",
        "snapshot_epoch",
        "state_epoch",
        "update_key",
        "version",
        "wake_ms",
        "window",
    )

    def __init__(self, key: PartitionKey, version: int) -> None:
        self.key = key
        self.version = version
        self.state_epoch = 0
        self.snapshot_epoch = 0
        self.window: Window | None = None
        self.active = ActiveMember()
        self.oldest: tuple[int, float] | None = None
        self.update_key = b""
        self.wake_ms = NEVER_MS
        self.keys: PartitionKeys | None = None
        self.barrier: asyncio.Future[int] | asyncio.Future[None] | None = None
        self.last_append: asyncio.Future[None] | None = None

    @property
    def start_offset(self) -> int:
        return NO_START if self.window is None else self.window.start

    def next_offset(self, terms: RecordLimits) -> int:
        """Where to read on to acquire more; NONE_AVAILABLE while too many records are locked."""
        window = self.window
        if window is None:
            return NO_START
        offset = window.first_available()
        if window.in_use >= terms.record_locks_max or offset >= window.start + SPAN_MAX:
            return NONE_AVAILABLE
        return offset

    # ---------------------------------------------------------------- what is durable

    def begin(self, value: SnapshotValue, now: Moment) -> None:
        """The whole state. Raises MalformedMessage."""
        self.state_epoch = value.state_epoch
        self.snapshot_epoch = value.snapshot_epoch
        self.active = ActiveMember(value.active_epoch, value.active_member)
        self.window = None if value.start_offset < 0 else Window(value.start_offset)
        self._apply(value, now)

    def change(self, value: UpdateValue, now: Moment, begun_ms: int | None = None) -> None:
        """A change. Raises MalformedMessage.

        `begun_ms`: when its append began (wall clock), if it has just become durable. Its locks begin now, because nobody
        has had the records before.
        """
        if value.active_epoch >= 0:
            self.active = ActiveMember(value.active_epoch, value.active_member)
        if value.start_offset >= 0:
            if self.window is None:
                self.window = Window(value.start_offset)
            else:
                self.window.advance(value.start_offset)
        self._apply(value, now, begun_ms)

    def _apply(self, value: SnapshotValue | UpdateValue, now: Moment, begun_ms: int | None = None) -> None:
        window = self.window
        if window is None:
            self.oldest = None
            return
        if value.start_offset > OFFSET_MAX or _may_overflow(window, value):
            raise MalformedMessage("a share partition with a start offset or a number of locks that cannot be")
        for batch in value.state_batches:
            _require_sound_state(window, batch)
            window.apply(batch)
            if batch.due_ms > now.wall_ms and batch.delivery_state == AVAILABLE:
                left_ms = min(batch.due_ms - now.wall_ms, BACKOFF_MAX_MS)
                window.delay(batch.first_offset, batch.last_offset, batch.due_ms, now.loop_ms + left_ms)
        since_ms = now.wall_ms if begun_ms is None else begun_ms
        for records in value.locks:
            _require_sound_range(window, records)
            left_ms = min(max(records.deadline_ms - since_ms, 0), LOCK_DURATION_MAX_MS)
            window.lock(records, now.loop_ms + left_ms)
        window.strip()
        if not window.states:
            self.oldest = None
        elif self.oldest is None or self.oldest[0] != window.start:
            self.oldest = window.start, now.loop_ms

    # ---------------------------------------------------------------- snapshots

    def snapshot(self, now: Moment, leader_epoch: int) -> SnapshotValue:
        """The durable state."""
        window = self.window
        return SnapshotValue(
            snapshot_epoch=self.snapshot_epoch,
            state_epoch=self.state_epoch,
            leader_epoch=leader_epoch,
            start_offset=self.start_offset,
            create_timestamp=now.wall_ms,
            write_timestamp=now.wall_ms,
            state_batches=() if window is None else tuple(_batches(window)),
            delivery_complete_count=-1 if window is None else window.done,
            locks=() if window is None else tuple(_locks(window, now)),
            active_member=self.active.member_id,
            active_epoch=self.active.epoch,
        )


_UNTOUCHED: Final = (AVAILABLE, 0, 0, 0)


def _may_overflow(window: Window, value: SnapshotValue | UpdateValue) -> bool:
    """Whether there may be more locks and delays than there are numbers of them."""
    count = window.holds.count + len(value.locks)
    if count + len(value.state_batches) <= HOLDS_MAX:
        return False
    return count + sum(batch.due_ms > 0 for batch in value.state_batches) > HOLDS_MAX


def _require_sound_state(window: Window, batch: StateBatch) -> None:
    """Raises MalformedMessage."""
    if batch.delivery_state not in _WRITTEN_STATES:
        raise MalformedMessage(f"records of a share partition in state {batch.delivery_state}")
    is_moving_start = batch.delivery_state in _DONE and batch.first_offset <= window.start
    _require_sound_range(window, batch, OFFSET_MAX if is_moving_start else REACH_MAX)


def _require_sound_range(window: Window, records: StateBatch | LockedRecords, reach_max: int = REACH_MAX) -> None:
    """Raises MalformedMessage: it would take memory for offsets that nobody was given."""
    first, last = records.first_offset, records.last_offset
    if not 0 <= first <= last <= min(window.start + reach_max, OFFSET_MAX - 1):
        raise MalformedMessage(f"records {first} to {last} of a share partition that begins at {window.start}")


def _batches(window: Window) -> Iterator[StateBatch]:
    """Runs of records that are alike; a locked or delayed one is available there."""
    first, before = 0, _UNTOUCHED
    for at, byte in enumerate(window.states):
        state, due_ms, reason = byte & ~RESERVED, 0, 0
        if state == ACQUIRED:
            state = AVAILABLE
        elif state == DELAYED:
            state, due_ms = AVAILABLE, window.holds.due_ms(window.numbers[at])
        elif state == ARCHIVING_SPENT:
            state, reason = ARCHIVING, DeadReason.DELIVERY_COUNT
        now = (state, window.counts[at], due_ms, reason)
        if now != before:
            if before != _UNTOUCHED:
                yield _batch(window, first, at, before)
            first, before = at, now
    if before != _UNTOUCHED:
        yield _batch(window, first, len(window.states), before)


def _batch(window: Window, low: int, high: int, what: tuple[int, int, int, int]) -> StateBatch:
    return StateBatch(
        first_offset=window.start + low,
        last_offset=window.start + high - 1,
        delivery_state=what[0],
        delivery_count=what[1],
        due_ms=what[2],
        reason=what[3],
    )


def _locks(window: Window, now: Moment) -> Iterator[LockedRecords]:
    low = 0
    while low < len(window.numbers):
        number, high = window.numbers[low], low + 1
        while high < len(window.numbers) and window.numbers[high] == number:
            high += 1
        if number != NO_HOLD and window.holds.is_lock(number):
            holder = window.holds.holder(number)
            yield LockedRecords(
                first_offset=window.start + low,
                last_offset=window.start + high - 1,
                deadline_ms=round(now.wall_ms + window.holds.deadline_ms(number) - now.loop_ms),
                member_id=holder.member_id,
                node_id=holder.node_id,
                node_epoch=holder.node_epoch,
                session=holder.session,
            )
        low = high
