"""The state machine of one partition of `__share_group_state`: which records of share partitions are locked and done.

Performs what decisions.py decides. Deliveries are counted in the log before a member gets the records, and so is who holds
them until when: a new owner of the shard knows the counts and the locks, and acknowledgements on their way still count.
A lock ends when its member settles the records, when its share session or its proxy's incarnation ends, or at its
deadline; never because this shard, or the data partition, has another owner.

Records of the log: bmq/protocol/share_state_records.py. One heap of deadlines serves all share partitions of the shard,
each of which has its own locks in order of theirs (holds.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import field, replace
from typing import ClassVar, Final, Protocol

from bmq.coordinator.config import RecordLimits, ShareRecordTerms
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.runtime.shard import LATE_WAKE_MS, Shard
from bmq.coordinator.share_state.acquisition import Acquired, Acquisition, Held
from bmq.coordinator.share_state.appends import Appends
from bmq.coordinator.share_state.config import ShareStateConfig
from bmq.coordinator.share_state.dead_letters import DeadLetterContext, DeadLetters
from bmq.coordinator.share_state.decisions import (
    Ack,
    Outcome,
    Settled,
    Span,
    acknowledge,
    acquire,
    archive,
    held_by,
    past_holes,
    release,
    without,
)
from bmq.coordinator.share_state.due_partitions import DuePartitions
from bmq.coordinator.share_state.holder import Holder
from bmq.coordinator.share_state.keys import PartitionKeys
from bmq.coordinator.share_state.metrics import ShareStateMetrics
from bmq.coordinator.share_state.partition import NONE_AVAILABLE, ActiveMember, PartitionKey, SharePartition
from bmq.coordinator.share_state.records import counted, locked, renewed, snapshot_key
from bmq.coordinator.share_state.snapshots import copied, encode, restore
from bmq.coordinator.share_state.window import ARCHIVED, ARCHIVING, AVAILABLE, Window
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.state_log import SnapshotPolicy
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, MalformedMessage
from bmq.protocol.share_state_messages import AckType
from bmq.protocol.share_state_records import (
    LockedRecords,
    SnapshotKey,
    SnapshotValue,
    StateBatch,
    UpdateValue,
    decode_key,
    decode_value,
)

DUE_PER_TICK_MAX: Final = 500
"""Locks that run out, and delays that end, in one turn of the event loop."""
_NO_LIMITS: Final = RecordLimits(0, 0)


class IsGone(Protocol):
    def __call__(self, node_id: int, node_epoch: int, /) -> bool:
        """Whether this incarnation of a proxy is known to have ended."""


@dataclass(frozen=True, slots=True)
class ShareStateContext:
    """What all shards of a coordinator share. `terms(group)`: the limits of the group's records. `dead_letters`: None: there
    are none. `last_versions`: of shards that were given up, by number.
    """

    clock: Clock
    config: ShareStateConfig
    metrics: ShareStateMetrics
    terms: Callable[[str], ShareRecordTerms]
    is_gone: IsGone
    dead_letters: DeadLetterContext | None = None
    last_versions: dict[int, int] = field(default_factory=dict)


class ShareStateShard(Shard):
    """See the module."""

    kind: ClassVar = "share_state"

    def __init__(
        self, number: int, log: ReplayableLog, on_lost: Callable[[ShareStateShard], None], context: ShareStateContext
    ) -> None:
        config = context.config
        policy = SnapshotPolicy(config.snapshot_records_max, config.snapshot_bytes_max)
        super().__init__(number, log, context.clock, policy, context.metrics, on_lost)
        self.partitions: dict[PartitionKey, SharePartition] = {}
        self._context = context
        self._metrics = context.metrics
        self._is_live = False
        # Higher than under any former owner, and than before a load of this one.
        self._version = max(log.leader_epoch << 32, context.last_versions.get(number, 0) + 1)
        self._watchers: dict[PartitionKey, dict[asyncio.Future[None], None]] = {}
        self._deadlines = DuePartitions()
        self._appends = Appends(self, context.metrics, config.message_max_bytes)
        self._not_before_ms = 0.0
        self.dead_letters = None if context.dead_letters is None else DeadLetters(self, context.dead_letters)

    # ---------------------------------------------------------------- life

    def begin(self) -> None:
        self._is_live = True
        # Acknowledgements that the former owner did not answer arrive now.
        self._not_before_ms = self.now().loop_ms + LATE_WAKE_MS
        self.arm()
        self.nodes_changed()
        for partition in self.partitions.values():
            self._begin_dead_letters(partition)

    def unload(self, error: ErrorCode) -> None:
        self._context.last_versions[self.number] = self._version
        self.partitions = {}
        self._deadlines.clear()
        if self.dead_letters is not None:
            self.dead_letters.close()
        for key in tuple(self._watchers):
            self._wake_watchers(key)

    def after_stall(self) -> None:
        self._not_before_ms = self.now().loop_ms + LATE_WAKE_MS

    @property
    def size(self) -> int:
        return len(self.partitions)

    @property
    def facts(self) -> dict[str, int]:
        windows = [one.window for one in self.partitions.values() if one.window is not None]
        return {
            "share_partitions": len(self.partitions),
            "locked": sum(window.locked for window in windows),
            "delayed": sum(window.delayed for window in windows),
        }

    @property
    def wake_ms(self) -> float:
        return max(self._deadlines.next_ms, self._not_before_ms)

    # ---------------------------------------------------------------- requests of members

    async def acquire(self, key: PartitionKey, asked: Acquisition) -> Acquired:
        """Lock records for a member; answers when the delivery is counted durably.

        Raises KafkaError INVALID_REQUEST (not initialized), FENCED_MEMBER_EPOCH (another member alone may), and the
        errors of an append and of a proof.
        """
        asked_ms = self.elapsed_ms()
        partition = await self._settled(key)
        if partition.window is None and asked.reset_offset >= 0:
            await self._begin_at(partition, asked.reset_offset)
        terms = self._context.terms(key.group_id)
        if terms.is_keyed and partition.last_append is not None:
            # No record of a key is given while an append concerns the key; often it has the acknowledgements that came with
            # this fetch.
            await asyncio.wait({partition.last_append})
            partition = await self._settled(key)
        window = partition.window
        if terms.is_single_active and asked.batches and partition.active.member_id != asked.holder.member_id:
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, "another member of the group has the partition")
        if window is None:
            await self._prove(asked_ms)
            return Acquired(-1, -1, partition.version, terms.lock_duration_ms)
        start = past_holes(window, window.kept_start(asked.log_start_offset), asked.archive)
        unseen = [span for span in asked.archive if span.last >= start]
        batches = [Span(max(first, start), last) for first, last in asked.batches if last >= start]
        keys = self._keys(partition, window, asked, terms)
        if keys is not None:
            most = min(asked.wanted.records_max, terms.limits.record_locks_max - window.in_use)
            batches = keys.spans(window, asked.holder.member_id, batches, asked.log_start_offset, most)
        given = acquire(window, without(batches, unseen), asked.wanted, terms.limits)
        archived = archive(window, unseen)
        if given or archived or start > window.start:
            deadline_ms = self.now().wall_ms + terms.lock_duration_ms
            states = [*archived, *(counted(one) for one in given)]
            value = UpdateValue(
                snapshot_epoch=partition.snapshot_epoch,
                leader_epoch=self.state_log.log.leader_epoch,
                start_offset=start,
                state_batches=states,
                locks=[locked(one, asked.holder, deadline_ms) for one in given],
            )
            await self._appends.write(
                partition, window, value, [Span(one.first_offset, one.last_offset) for one in states]
            )
            self._metrics.acquired += sum(one.last - one.first + 1 for one in given)
            self._metrics.redelivered += sum(one.last - one.first + 1 for one in given if one.delivery_count > 1)
        else:
            await self._prove(asked_ms)
        next_offset = partition.next_offset(terms.limits)
        if partition.keys is not None and partition.window is not None:
            next_offset = partition.keys.next_offset(
                partition.window, asked.holder.member_id, asked.log_start_offset, terms.limits
            )
        return Acquired(partition.start_offset, next_offset, partition.version, terms.lock_duration_ms, given)

    def _keys(
        self, partition: SharePartition, window: Window, asked: Acquisition, terms: ShareRecordTerms
    ) -> PartitionKeys | None:
        """With what the request says of keys; None: the group keeps no order of keys."""
        if not terms.is_keyed:
            partition.keys = None
            return None
        keys = partition.keys = partition.keys or PartitionKeys(window.start)
        keys.asked(asked.holder, self.now().loop_ms)
        keys.learn(window.start, asked.hash_offset, asked.key_hashes)
        return keys

    async def acknowledge(self, key: PartitionKey, acks: Sequence[Ack], member_id: str) -> None:
        """Settle records of a member, all or none; returns when it is durable.

        Raises KafkaError INVALID_REQUEST, OFFSET_OUT_OF_RANGE, INVALID_RECORD_STATE, and the errors of an append and of a proof.
        """
        partition = await self._settled(key)
        terms = self._context.terms(key.group_id)
        try:
            window = partition.window
            if window is None:
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "no record was ever given")
            if not terms.may_renew and any(AckType.RENEW in ack.types for ack in acks):
                raise KafkaError(ErrorCode.INVALID_RECORD_STATE, "the group's locks cannot be renewed")
            settled = acknowledge(window, acks, member_id, terms.limits.delivery_count_limit, self._outcome(terms))
        except KafkaError:
            await self.prove()  # a former owner does not know the locks of the present one
            raise
        await self._settle(partition, window, settled, terms)

    async def release_member(self, key: PartitionKey, held: Held) -> None:
        """Release what a member holds; returns when it is durable."""
        partition = self.partitions.get(key)
        while partition is not None and partition.last_append is not None:  # it may lock records for the member
            await asyncio.wait({partition.last_append})
            partition = self.partitions.get(key)
            self._require_here()
        if partition is None:
            return
        partition = await self._settled(key)
        now, duration_ms = self.now(), self._context.terms(key.group_id).lock_duration_ms
        done = self._release_holders(
            partition, held.is_of, lambda deadline_ms: held.is_old(deadline_ms, now, duration_ms)
        )
        if done is not None:
            await asyncio.shield(done)

    async def _settle(
        self, partition: SharePartition, window: Window, settled: Settled, terms: ShareRecordTerms
    ) -> None:
        if not settled.batches and not settled.renewed:
            return
        deadline_ms = self.now().wall_ms + terms.lock_duration_ms
        locks = [records for span in settled.renewed for records in renewed(window, span, deadline_ms)]
        value = self._update(partition, settled.batches, locks)
        spans = [Span(one.first_offset, one.last_offset) for one in settled.batches]
        await self._appends.write(partition, window, value, [*spans, *settled.renewed])

    async def _begin_at(self, partition: SharePartition, start_offset: int) -> None:
        """Write the start offset that a proxy has found by the group's reset strategy; the first one counts."""
        value = UpdateValue(
            snapshot_epoch=partition.snapshot_epoch,
            leader_epoch=self.state_log.log.leader_epoch,
            start_offset=start_offset,
        )
        partition.barrier = self._appends.update(partition, value)
        await self._after_barrier(partition)

    # ---------------------------------------------------------------- requests of groups

    async def initialize(self, key: PartitionKey, state_epoch: int, start_offset: int) -> None:
        """Begin the state. One that exists is kept, unless a start offset is named: then it begins again there.

        Raises KafkaError FENCED_STATE_EPOCH, COORDINATOR_NOT_AVAILABLE (too many), and the errors of an append.
        """
        asked_ms = self.elapsed_ms()
        partition = self.partitions.get(key)
        if partition is not None:
            await self._after_barrier(partition)
            partition = self.partitions.get(key)
        if partition is not None and partition.state_epoch > state_epoch:
            await self.prove()
            why = f"the state has the epoch {partition.state_epoch}, not {state_epoch}"
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, why)
        if partition is not None and start_offset < 0:
            await self._prove(asked_ms)
            return
        if partition is None and len(self.partitions) >= self._context.config.partitions_per_shard_max:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the shard has too many share partitions")
        now = self.now()
        value = SnapshotValue(
            snapshot_epoch=0 if partition is None else partition.snapshot_epoch + 1,
            state_epoch=state_epoch,
            leader_epoch=self.state_log.log.leader_epoch,
            start_offset=start_offset,
            create_timestamp=now.wall_ms,
            write_timestamp=now.wall_ms,
            active_member="" if partition is None else partition.active.member_id,
            active_epoch=-1 if partition is None else partition.active.epoch,
        )
        await self._restart(key, partition, value)

    async def activate(self, key: PartitionKey, active: ActiveMember) -> None:
        """From now on this member alone may acquire; returns when it is durable, and no other member's acquisition is
        on its way.

        Raises KafkaError INVALID_REQUEST (not initialized), FENCED_STATE_EPOCH, and the errors of an append and a proof.
        """
        asked_ms = self.elapsed_ms()
        partition = await self._settled(key)
        if partition.active.epoch > active.epoch:
            await self.prove()
            why = f"a member was named at the epoch {partition.active.epoch}, not {active.epoch}"
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, why)
        if partition.active == active:
            await self._prove(asked_ms)
            return
        value = replace(self._update(partition, (), ()), active_member=active.member_id, active_epoch=active.epoch)
        done = partition.barrier = self._appends.update(partition, value)
        await self._after_barrier(partition)
        await asyncio.shield(done)

    async def delete(self, key: PartitionKey) -> None:
        """Delete the state, if there is any. Raises KafkaError of an append and of a proof."""
        asked_ms = self.elapsed_ms()
        partition = self.partitions.get(key)
        if partition is not None:
            await self._after_barrier(partition)
            partition = self.partitions.get(key)
        if partition is None:
            await self._prove(asked_ms)
        else:
            await self._restart(key, partition, None)

    async def _restart(self, key: PartitionKey, partition: SharePartition | None, value: SnapshotValue | None) -> None:
        done = self._appends.state(snapshot_key(key), value)
        if partition is not None:
            partition.barrier = done
            await self._after_barrier(partition)
        await asyncio.shield(done)

    # ---------------------------------------------------------------- waiting for more

    def version_of(self, key: PartitionKey) -> int:
        """The partition's version; 0 without state."""
        partition = self.partitions.get(key)
        return 0 if partition is None else partition.version

    def watch(self, key: PartitionKey, news: asyncio.Future[None]) -> None:
        """Set the future's result once the version rises, or the shard is lost."""
        self._watchers.setdefault(key, {})[news] = None

    def unwatch(self, key: PartitionKey, news: asyncio.Future[None]) -> None:
        watchers = self._watchers.get(key)
        if watchers is not None:
            watchers.pop(news, None)
            if not watchers:
                del self._watchers[key]

    def news(self, partition: SharePartition) -> None:
        self._version += 1
        partition.version = self._version
        self._wake_watchers(partition.key)

    def _wake_watchers(self, key: PartitionKey) -> None:
        for news in self._watchers.pop(key, ()):
            if not news.done():
                news.set_result(None)

    # ---------------------------------------------------------------- locks that end by themselves

    def nodes_changed(self) -> None:
        """Release what proxies had that are gone."""
        is_gone = self._context.is_gone

        def is_ended(holder: Holder) -> bool:
            return is_gone(holder.node_id, holder.node_epoch)

        for partition in self.partitions.values():
            self._release_holders(partition, is_ended)

    def tick(self, now: Moment) -> None:
        """Release records whose lock has run out, and give those again whose back-off is over."""
        if now.loop_ms >= self._not_before_ms:
            self._release_expired_locks(now)

    def _release_expired_locks(self, now: Moment) -> None:
        left = DUE_PER_TICK_MAX
        while left > 0 and (partition := self._deadlines.pop_due(now.loop_ms)) is not None:
            window = partition.window
            if window is None or self.partitions.get(partition.key) is not partition:
                continue
            due = window.holds.take_due(now.loop_ms, left)
            left -= max(len(due), 1)
            locks = [number for number in due if window.holds.is_lock(number)]
            delays = [number for number in due if not window.holds.is_lock(number)]
            for number in delays:
                window.end_delay(number)
            if delays:
                self.news(partition)
            self._deadlines.watch(partition)
            if locks:
                terms = self._context.terms(partition.key.group_id)
                self._release_locks(partition, locks, self._outcome(terms))
                self._metrics.expired_locks += len(locks)

    def _outcome(self, terms: ShareRecordTerms) -> Outcome:
        return Outcome(terms.backoff, self.now().wall_ms, has_dead_letters=terms.dead_letters is not None)

    def _release_holders(
        self,
        partition: SharePartition,
        is_ended: Callable[[Holder], bool],
        is_old: Callable[[float], bool] = lambda deadline_ms: True,
    ) -> asyncio.Future[None] | None:
        """Begin to release what these have locked, as far as the deadline of a lock is old.

        No record waits for a back-off: no member has tried them.
        """
        if partition.keys is not None and partition.keys.left(is_ended):
            self.news(partition)
        holds = None if partition.window is None else partition.window.holds
        locks = [] if holds is None else [one for one in holds.numbers_of(is_ended) if is_old(holds.deadline_ms(one))]
        if not locks:
            return None
        terms = self._context.terms(partition.key.group_id)
        return self._release_locks(partition, locks, self._outcome(terms._replace(backoff=())))

    def _release_locks(
        self, partition: SharePartition, locks: Sequence[int], outcome: Outcome
    ) -> asyncio.Future[None] | None:
        """Begin to release what the locks of these numbers hold, except for records that another append concerns."""
        window = partition.window
        if window is None or partition.barrier is not None:
            return None
        spans = held_by(window, locks)
        if not spans:
            return None
        terms = self._context.terms(partition.key.group_id)
        states = release(window, spans, terms.limits.delivery_count_limit, outcome)
        value = self._update(partition, states, ())
        return self._appends.begin(partition, window, value, spans)

    def archive_dead(self, partition: SharePartition, window: Window, first: int, last: int) -> asyncio.Future[None]:
        """Begin to write that records are archived, whose dead letters are durable. Raises KafkaError."""
        spans = [Span(max(first, window.start), last)]
        states = [
            StateBatch(first_offset=low, last_offset=high, delivery_state=ARCHIVED, delivery_count=count)
            for low, high, count in window.counted(*spans[0])
        ]
        return self._appends.begin(partition, window, self._update(partition, states, ()), spans)

    def _begin_dead_letters(self, partition: SharePartition) -> None:
        if self.dead_letters is not None and partition.window is not None and partition.window.archiving:
            self.dead_letters.begin(partition)

    # ---------------------------------------------------------------- writing

    def _require_here(self) -> None:
        if self.is_lost:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    async def _prove(self, asked_ms: float) -> None:
        """For an answer from memory that changes nothing: a recent proof will do."""
        self._require_here()
        if not self.is_proven(asked_ms):
            await self.prove()

    async def _settled(self, key: PartitionKey) -> SharePartition:
        """The partition, once it is neither begun anew nor deleted. Raises KafkaError INVALID_REQUEST without state."""
        partition = self.partitions.get(key)
        if partition is not None and partition.barrier is not None:
            await self._after_barrier(partition)
            partition = self.partitions.get(key)
        self._require_here()
        if partition is None:
            await self.prove()
            partition = self.partitions.get(key)
        if partition is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the state of the share partition is not initialized")
        return partition

    async def _after_barrier(self, partition: SharePartition) -> None:
        """Wait until no append begins the partition anew. Raises KafkaError when the shard is lost."""
        while partition.barrier is not None:
            barrier = partition.barrier
            await asyncio.wait({barrier})
            if partition.barrier is barrier:
                partition.barrier = None
        self._require_here()

    def _update(
        self, partition: SharePartition, batches: Sequence[StateBatch], locks: Sequence[LockedRecords]
    ) -> UpdateValue:
        return UpdateValue(
            snapshot_epoch=partition.snapshot_epoch,
            leader_epoch=self.state_log.log.leader_epoch,
            start_offset=partition.start_offset,
            state_batches=batches,
            locks=locks,
        )

    # ---------------------------------------------------------------- what is durable

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Raises KafkaError for an unreadable record: skipping it could give records again that are done."""
        if key is None:
            return
        try:
            self._replay_record(key, value)
        except MalformedMessage as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the state of a share partition cannot be read: {error}"
            ) from error

    def _replay_record(self, key: bytes, value: bytes | None) -> None:
        """Raises MalformedMessage."""
        named = decode_key(key)
        state = decode_value(named, value)
        place = PartitionKey(named.group, named.topic_id, named.partition)
        if isinstance(named, SnapshotKey):
            self._replay_snapshot(place, state if isinstance(state, SnapshotValue) else None)
        elif isinstance(state, UpdateValue) and (partition := self.partitions.get(place)) is not None:
            self._replay_update(partition, state)

    def _replay_snapshot(self, key: PartitionKey, value: SnapshotValue | None) -> None:
        partition = self.partitions.get(key)
        if value is None:
            if partition is not None:
                del self.partitions[key]
                self._wake_watchers(key)
            return
        if partition is None:
            partition = self.partitions[key] = SharePartition(key, self._version)
        partition.begin(value, self.now())
        self._deadlines.watch(partition)
        if self._is_live:
            self.news(partition)

    def apply(self, key: PartitionKey, value: UpdateValue, begun_ms: int) -> None:
        """A change is durable that this shard has begun to append then (wall clock)."""
        partition = self.partitions.get(key)
        if partition is not None:
            self._replay_update(partition, value, begun_ms)

    def _replay_update(self, partition: SharePartition, value: UpdateValue, begun_ms: int | None = None) -> None:
        limits = self._context.terms(partition.key.group_id).limits if self._is_live else _NO_LIMITS
        was_full = self._is_live and partition.next_offset(limits) == NONE_AVAILABLE
        partition.change(value, self.now(), begun_ms)
        self._deadlines.watch(partition)
        if not self._is_live:
            return
        is_released = not value.locks and any(
            one.delivery_state == AVAILABLE and not one.due_ms for one in value.state_batches
        )
        keys = partition.keys
        if keys is not None and partition.window is not None and not is_released:
            has_ended = any(one.delivery_state != AVAILABLE for one in value.state_batches)
            is_released = has_ended and keys.may_free(partition.window)
        if is_released or value.active_epoch >= 0 or (was_full and partition.next_offset(limits) != NONE_AVAILABLE):
            self.news(partition)
        if any(one.delivery_state == ARCHIVING for one in value.state_batches):
            self._begin_dead_letters(partition)
        self.arm()

    # ---------------------------------------------------------------- snapshots

    def snapshot(self) -> Awaitable[bytes]:
        now = self.now()
        states = [copied(partition) for partition in self.partitions.values()]
        return encode(states, now, self.state_log.log.leader_epoch)

    async def restore(self, data: bytes) -> None:
        """Raises KafkaError."""
        await restore(data, self.replay)
