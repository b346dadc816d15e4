"""The group coordinator's state machine: groups and committed offsets of one partition of `__consumer_offsets`.

Performs what group.py and offsets.py decide. One heap of wake-up times serves all groups of the shard: a heartbeat
touches neither it nor the shard's timer.
"""

from __future__ import annotations

import asyncio
import heapq
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, Final

import structlog

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.effects import Answer, Effects, GroupState, Moment, Persist
from bmq.coordinator.group import Group
from bmq.coordinator.log_errors import coordinator_error
from bmq.coordinator.member import NEVER_MS
from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.offset_columns import PackedOffsets
from bmq.coordinator.offsets import Offsets, Record
from bmq.coordinator.pending_offsets import OpenTransaction
from bmq.coordinator.shard import Shard
from bmq.coordinator.snapshot import ShardState, decode_snapshot, encode_snapshot
from bmq.coordinator.transaction_gate import TransactionGate
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.state_log import Producer, SnapshotPolicy
from bmq.log.transactions import TransactionMarker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError, MalformedMessage
from bmq.protocol.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownKey,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

_log = structlog.get_logger("bmq.coordinator")

_STALE_WAKE_UPS_MAX: Final = 64
_PARTS_PER_TURN_MAX: Final = 2_000


class GroupShard(Shard):
    """Groups and offsets of one partition."""

    kind: ClassVar = "group"

    def __init__(
        self,
        number: int,
        log: ReplayableLog,
        clock: Clock,
        config: CoordinatorConfig,
        metrics: GroupMetrics,
        on_lost: Callable[[GroupShard], None],
    ) -> None:
        policy = SnapshotPolicy(config.snapshot_records_max, config.snapshot_bytes_max)
        super().__init__(number, log, clock, policy, metrics, on_lost)
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets(config)
        self.transactions = TransactionGate(number, lambda producer_id: self.offsets.pending.open_epoch(producer_id))
        self._config = config
        self._metrics = metrics
        self._loading: dict[str, GroupMetadataValue] | None = {}
        self._heap: list[tuple[float, str]] = []
        self._scheduled: dict[str, float] = {}
        self._expiry: asyncio.Handle | None = None
        self._commits: dict[str, set[asyncio.Future[int]]] = {}
        self._persisting: Counter[str] = Counter()  # records on their way, by group

    # ---------------------------------------------------------------- life

    def begin(self) -> None:
        loading, self._loading = self._loading or {}, None
        now = self.now()
        for group_id, value in loading.items():
            group = self.groups[group_id] = Group(group_id, self._config)
            self.perform(group, group.load(value, now))
        self._schedule_expiry()

    def unload(self, error: ErrorCode) -> None:
        for group in self.groups.values():
            try:
                for effect in group.unload(error):
                    if isinstance(effect, Answer):
                        _answer(effect)
            except Exception:  # the other groups' members wait as well
                _log.exception("group_not_unloaded", shard=self.number, group=group.group_id)
        self.groups = {}
        self.offsets = Offsets(self._config)

    def close(self) -> None:
        """Stop timers and background writes."""
        super().close()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    @property
    def size(self) -> int:
        return len(self.groups) + self.offsets.count + self.offsets.pending.count

    @property
    def facts(self) -> dict[str, int]:
        return {"groups": len(self.groups), "offsets": self.offsets.count}

    # ---------------------------------------------------------------- groups

    def has_group(self, group_id: str) -> bool:
        """Also one that has nothing but offsets."""
        return group_id in self.groups or self.offsets.has_group(group_id)

    def group_ids(self) -> list[str]:
        return [*self.groups, *(group_id for group_id in self.offsets.group_ids() if group_id not in self.groups)]

    def perform(self, group: Group, effects: Effects) -> None:
        """Carry out a group's effects and see to its next wake-up. Whatever this raises, the shard is lost."""
        try:
            for effect in effects:
                if isinstance(effect, Answer):
                    _answer(effect)
                else:
                    self._persist(group, effect)
            self._schedule(group)
        except Exception as error:
            self.fail(error)
            raise

    def _persist(self, group: Group, persist: Persist) -> None:
        try:
            record = (encode_key(GroupMetadataKey(group=group.group_id)), encode_value(persist.value))
            size_bytes = sum(map(len, record))
            if size_bytes > self._config.message_max_bytes:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a group's record of {size_bytes} bytes, {self._config.message_max_bytes} are allowed",
                )
        except (KafkaError, struct.error) as error:
            # Names and assignments are as long as clients like: that is their group's trouble alone.
            self._persisted(group, persist, error)
            return
        done = self.append([record])
        self._persisting[group.group_id] += 1

        def finish(done: asyncio.Future[int]) -> None:
            if self.is_lost or done.cancelled():
                return
            self._persisting[group.group_id] -= 1
            if not self._persisting[group.group_id]:
                del self._persisting[group.group_id]
            try:
                self._persisted(group, persist, done.exception())
                self.forget_if_unused(group)
            except Exception as error:
                self.fail(error)

        done.add_done_callback(finish)

    def _persisted(self, group: Group, persist: Persist, error: BaseException | None) -> None:
        if error is None:
            self.perform(group, group.persisted(persist, self.now()))
            return
        code = coordinator_error(error) if isinstance(error, BmqError) else ErrorCode.UNKNOWN_SERVER_ERROR
        _log.warning("group_not_written", group=group.group_id, generation=persist.value.generation, error=code.name)
        self.perform(group, group.persist_failed(persist, code, self.now()))

    # ---------------------------------------------------------------- the log

    async def commit(
        self,
        group_id: str,
        partitions: Sequence[tuple[str, int]],
        records: Sequence[Record],
        producer: Producer | None = None,
    ) -> None:
        """Write a decided commit; returns when it is applied. Raises KafkaError.

        `producer`: as part of its transaction, to which `transactions` has just admitted it.
        """
        ticket = self.offsets.begin(group_id, partitions)
        done = self.append(records, producer)
        if producer is not None:
            self.transactions.writing(producer, done)
        waiting = self._commits.setdefault(group_id, set())
        waiting.add(done)
        offsets = self.offsets

        def finish(done: asyncio.Future[int]) -> None:
            offsets.end(ticket)
            waiting.discard(done)
            if not waiting:
                self._commits.pop(group_id, None)

        done.add_done_callback(finish)
        await asyncio.shield(done)  # a client that goes away does not take back what is on its way
        self._metrics.commits += len(partitions)

    async def write_marker(self, marker: TransactionMarker) -> None:
        """End a producer's transaction; returns when what it committed is visible. Raises KafkaError."""
        self.transactions.check_marker(marker)
        done = self.append_marker(marker)
        self.transactions.ending(marker.producer_id, done)
        await asyncio.shield(done)

    async def settle(self, group_id: str) -> None:
        """Wait for the group's commits that are on their way now, whatever becomes of them."""
        waiting = self._commits.get(group_id)
        if waiting:
            await asyncio.wait(list(waiting))

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return
        try:
            named = decode_key(key)
            told = decode_value(named, value)
        except MalformedMessage as error:
            _log.error("group_record_skipped", shard=self.number, error=str(error))
            return
        if isinstance(named, OffsetCommitKey):
            self.offsets.replay(named, told if isinstance(told, OffsetCommitValue) else None)
        elif isinstance(named, UnknownKey):
            return  # consumer, share and streams groups: not ours to keep yet
        else:
            self._apply_group(named.group, told if isinstance(told, GroupMetadataValue) else None)

    def replay_transactional(self, key: bytes | None, value: bytes | None, offset: int, producer: Producer) -> None:
        self.offsets.pending.open(*producer)
        if key is None:
            return
        try:
            named = decode_key(key)
            told = decode_value(named, value)
        except MalformedMessage as error:
            _log.error("group_record_skipped", shard=self.number, error=str(error))
            return
        if isinstance(named, OffsetCommitKey):
            committed = told if isinstance(told, OffsetCommitValue) else None
            self.offsets.replay_pending(producer.producer_id, named, committed, offset)
        else:
            self.replay(key, value)  # only offsets wait for the end of a transaction

    def replay_end(self, producer: Producer, is_commit: bool) -> None:
        self.offsets.replay_end(producer.producer_id, is_commit=is_commit)
        self.transactions.ended(producer)

    def _apply_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if self._loading is not None:
            # Only a group's last record counts: groups are made when all have been seen.
            if value is None:
                self._loading.pop(group_id, None)
            else:
                self._loading[group_id] = value
            return
        group = self.groups.get(group_id)
        if value is None:
            if group is not None:
                group.removed()
                self.forget_if_unused(group)
            return
        if group is None:
            group = self.groups[group_id] = Group(group_id, self._config)
            self.perform(group, group.load(value, self.now()))
            return
        before = group.rebalance_count
        self.perform(group, group.replay(value, self.now()))
        self._metrics.rebalances += group.rebalance_count - before

    def forget_if_unused(self, group: Group) -> None:
        """Drop a group that was never written and has nobody in it (a first JoinGroup that failed, or never came back).

        Not while a record of it is on its way: that would be taken for one of the next group of this name.
        """
        is_here = self.groups.get(group.group_id) is group
        if is_here and group.is_unused and group.group_id not in self._persisting:
            del self.groups[group.group_id]
            self._scheduled.pop(group.group_id, None)

    # ---------------------------------------------------------------- snapshots

    def durable_state(self) -> ShardState:
        """What the log says of groups and offsets, as it is now."""
        return ShardState(
            [(group_id, group.written) for group_id, group in self.groups.items() if group.written is not None],
            self.offsets.copied(),
            self.offsets.pending.copied(),
        )

    def snapshot(self) -> Awaitable[bytes]:
        return encode_snapshot(self.durable_state())

    async def restore(self, data: bytes) -> None:
        for number, part in enumerate(decode_snapshot(data), 1):
            if isinstance(part, PackedOffsets):
                self.offsets.restore(part)
            elif isinstance(part, OpenTransaction):
                self.offsets.pending.restore(part)
            else:
                self.replay(*part)
            if number % _PARTS_PER_TURN_MAX == 0:
                await asyncio.sleep(0)

    # ---------------------------------------------------------------- time

    @property
    def wake_ms(self) -> float:
        return self._heap[0][0] if self._heap else NEVER_MS

    def _schedule(self, group: Group) -> None:
        wake_ms = group.wake_ms
        if wake_ms >= self._scheduled.get(group.group_id, NEVER_MS) or self.is_lost:
            return
        self._scheduled[group.group_id] = wake_ms
        if len(self._heap) > 2 * len(self._scheduled) + _STALE_WAKE_UPS_MAX:
            self._heap = [(at_ms, group_id) for group_id, at_ms in self._scheduled.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (wake_ms, group.group_id))
        self.arm()

    def stood_still(self) -> None:
        """Members' heartbeats lie unread in the sockets, or were dropped there."""
        loop_ms = self.now().loop_ms
        for group in self.groups.values():
            group.stood_still(loop_ms)

    def tick(self, now: Moment) -> None:
        # What becomes due meanwhile has its turn after the event loop's others.
        due = []
        while self._heap and self._heap[0][0] <= now.loop_ms:
            due.append(heapq.heappop(self._heap))
        for wake_ms, group_id in due:
            if self._scheduled.get(group_id) != wake_ms:
                continue  # an earlier wake-up took its place
            del self._scheduled[group_id]
            group = self.groups.get(group_id)
            if group is None:
                continue
            member_count = len(group.members)
            effects = group.tick(now)
            if len(group.members) < member_count:
                self._metrics.expired_members += member_count - len(group.members)
                _log.info(
                    "group_members_expired",
                    group=group_id,
                    expired=member_count - len(group.members),
                    members=len(group.members),
                    state=group.state,
                )
            self.perform(group, effects)
            self.forget_if_unused(group)

    def _schedule_expiry(self) -> None:
        delay_s = self._config.offsets_retention_check_interval_ms / 1000
        self._expiry = self._loop.call_later(delay_s, lambda: self._expire(self.group_ids()))

    def _expire(self, left: list[str]) -> None:
        """Tombstones for offsets and groups whose time is over; a bounded number of offsets in each turn of the loop."""
        try:
            self._expire_some(left)
        except Exception as error:  # deciding what to expire changes nothing: the next round is as good
            _log.error("group_expiry_failed", shard=self.number, error=repr(error), exc_info=error)
            left = []
        if left:
            self._expiry = self._loop.call_soon(self._expire, left)
        else:
            self._schedule_expiry()

    def _expire_some(self, left: list[str]) -> None:
        now_ms = self._clock.now_ms()
        records: list[Record] = []
        looked_at = 0
        while left and looked_at < self._config.expiry_offsets_per_turn_max:
            group_id = left.pop()
            group = self.groups.get(group_id)
            looked_at += 1 + self.offsets.count_of(group_id)
            expired, is_empty = self.offsets.expire(group_id, group, now_ms)
            self._metrics.expired_offsets += len(expired)
            records += expired
            if is_empty and group is not None and group.state is GroupState.EMPTY and group.written is not None:
                records.append((encode_key(GroupMetadataKey(group=group_id)), None))
        if records:
            _log.info("group_offsets_expired", shard=self.number, tombstones=len(records))
            self.append(records)


def _answer(effect: Answer) -> None:
    # The client may be gone, and then nobody waits any more.
    if not effect.caller.done():
        effect.caller.set_result(effect.response)
