"""The group coordinator's state machine: groups and committed offsets of one partition of `__consumer_offsets`.

Performs what group.py and offsets.py decide; groups of the new protocol (KIP-848) are in consumer/. One heap of wake-up
times serves all groups of the shard; a heartbeat touches neither it nor the shard's timer.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import structlog

from bmq.coordinator.classic.effects import Answer, Effects, GroupState, Persist
from bmq.coordinator.classic.group import CLASSIC, Group
from bmq.coordinator.classic.member_memory import MemberMemory, ShardMemory
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.consumer.consumer_group import ConsumerGroup
from bmq.coordinator.consumer_groups import ConsumerGroups
from bmq.coordinator.lanes.shard_lanes import ShardLanes
from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.modern.group_draft import GroupDraft
from bmq.coordinator.modern.group_runtime import GroupRuntime
from bmq.coordinator.offsets.commit_plans import CommitPlan
from bmq.coordinator.offsets.commit_run import CommitDone, CommitRun
from bmq.coordinator.offsets.offset_columns import PackedOffsets
from bmq.coordinator.offsets.offsets import Offsets, Record
from bmq.coordinator.offsets.pending_offsets import OpenTransaction
from bmq.coordinator.offsets.transaction_gate import TransactionGate
from bmq.coordinator.runtime.log_errors import coordinator_error
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.runtime.shard import Shard
from bmq.coordinator.runtime.wake_ups import WakeUps
from bmq.coordinator.share_groups import ShareGroups
from bmq.coordinator.share_membership.assignor import Target
from bmq.coordinator.share_membership.share_group import ShareGroup
from bmq.coordinator.snapshot import ShardState, decode_snapshot, encode_snapshot
from bmq.coordinator.streams.streams_group import StreamsGroup
from bmq.coordinator.streams_groups import StreamsGroups
from bmq.coordinator.topics import CurrentTopics, MayDescribe, TopicChanges
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.state_log import Producer, SnapshotPolicy
from bmq.log.transactions import TransactionMarker
from bmq.protocol.consumer_group_records import is_consumer_key
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
from bmq.protocol.hot_commit import Committed
from bmq.protocol.lane_records import is_lane_key
from bmq.protocol.request_context import RequestMethod
from bmq.protocol.share_group_records import is_share_key
from bmq.protocol.streams_group_records import is_streams_key

_log = structlog.get_logger("bmq.coordinator")

_PARTS_PER_TURN_MAX: Final = 2_000
NewRuntime = GroupRuntime[Any, Any, Any, Any]
NewGroup = ConsumerGroup | StreamsGroup | ShareGroup
"""A group of a new protocol."""


@dataclass(frozen=True, slots=True)
class GroupShardContext:
    """What all group shards of a coordinator share. `create_topics`: answers CreateTopics; None: nobody does.

    `on_loaded`: called with each shard that is loaded. `on_share_member_expired`: of this shard, see ShareGroups.
    `may_describe`: which topics regular expressions may match.
    """

    clock: Clock
    config: CoordinatorConfig
    metrics: GroupMetrics
    image: CurrentTopics
    memory: MemberMemory
    may_describe: MayDescribe
    create_topics: RequestMethod | None = None
    on_loaded: Callable[[GroupShard], None] = lambda _: None
    on_share_member_expired: Callable[[GroupShard, str, str, Target], None] = lambda *_: None


class GroupShard(Shard):
    """Groups and offsets of one partition."""

    kind: ClassVar = "group"

    def __init__(
        self, number: int, log: ReplayableLog, on_lost: Callable[[GroupShard], None], context: GroupShardContext
    ) -> None:
        config, metrics, image = context.config, context.metrics, context.image
        policy = SnapshotPolicy(config.snapshot_records_max, config.snapshot_bytes_max)
        super().__init__(number, log, context.clock, policy, metrics, on_lost)
        self.groups: dict[str, Group] = {}
        self.memory = ShardMemory(context.memory, config.members_bytes_per_shard_max)
        self.offsets = Offsets(config)
        self.consumer = ConsumerGroups(self, config, metrics, image, context.may_describe)
        self.streams = StreamsGroups(self, config, metrics, image, context.create_topics)
        self.share = ShareGroups(self, config, metrics, image, partial(context.on_share_member_expired, self))
        self._runtimes: Sequence[NewRuntime] = (self.consumer, self.streams, self.share)
        self.lanes = ShardLanes()
        self.transactions = TransactionGate(number, lambda producer_id: self.offsets.pending.open_epoch(producer_id))
        self._config = config
        self._metrics = metrics
        self._on_loaded = context.on_loaded
        self._loading: dict[str, GroupMetadataValue] | None = {}
        self._wake_ups = WakeUps()
        self._expiry: asyncio.Handle | None = None
        self._settling: dict[int, asyncio.Future[None]] = {}  # by the ticket of a commit that somebody waits for
        self._persisting: Counter[str] = Counter()  # records in flight, by group

    # ---------------------------------------------------------------- life

    def reconfigure(self, config: CoordinatorConfig) -> None:
        """See GroupCoordinator.reconfigure."""
        self._config = config
        for groups in self._runtimes:
            groups.reconfigure(config)

    def begin(self) -> None:
        loading, self._loading = self._loading or {}, None
        now = self.now()
        for group_id, value in loading.items():
            group = self.groups[group_id] = Group(group_id, self._config)
            self.perform(group, group.load(value, now))
            if value.leader is None:  # a consumer group became this one, and its rebalance has not ended
                self.perform(group, group.rebalance(now))
        for groups in self._runtimes:
            groups.begin()
        self._schedule_expiry()
        self._on_loaded(self)

    def unload(self, error: ErrorCode) -> None:
        for group in self.groups.values():
            try:
                for effect in group.unload(error):
                    if isinstance(effect, Answer):
                        _answer(effect)
            except Exception:  # noqa: BLE001 the other groups' members must be answered too
                _log.exception("group_not_unloaded", shard=self.number, group=group.group_id)
        self.groups = {}
        self.memory.clear()
        self.offsets = Offsets(self._config)
        self.lanes = ShardLanes()
        for groups in self._runtimes:
            groups.unload(error)

    def close(self) -> None:
        """Stop timers and background writes."""
        super().close()
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    @property
    def size(self) -> int:
        members = sum(groups.size for groups in self._runtimes)
        offsets = self.offsets.count + self.offsets.pending.count
        return len(self.groups) + members + offsets + self.lanes.states.count

    @property
    def facts(self) -> dict[str, int]:
        return {"groups": self.group_count, "offsets": self.offsets.count}

    @property
    def group_count(self) -> int:
        """Number of groups with members or a record."""
        return len(self.groups) + sum(len(groups.groups) for groups in self._runtimes)

    # ---------------------------------------------------------------- groups

    def has_group(self, group_id: str) -> bool:
        """Whether the group exists; offsets alone are enough."""
        return (
            group_id in self.groups
            or any(group_id in groups.groups for groups in self._runtimes)
            or self.offsets.has_group(group_id)
        )

    def group_ids(self) -> list[str]:
        new = (group_id for groups in self._runtimes for group_id in groups.groups)
        return list(dict.fromkeys((*self.groups, *new, *self.offsets.group_ids())))

    def find_new(self, group_id: str) -> tuple[NewRuntime | None, NewGroup | None]:
        """The group of a new protocol with this id, and its runtime."""
        for groups in self._runtimes:
            group = groups.find(group_id)
            if group is not None:
                return groups, group
        return None, None

    def client_ids(self, group_id: str) -> list[str]:
        """The client id of each member of the group, whatever its kind."""
        group, (_, new) = self.groups.get(group_id), self.find_new(group_id)
        members: list[Any] = [] if group is None else list(group.members)
        return [member.client_id for member in (*members, *(() if new is None else new.members.values()))]

    def may_be_new(self, group_id: str) -> bool:
        """Whether it is a group of a new protocol, or a decision under way may make it one."""
        return any(groups.concerns(group_id) for groups in self._runtimes)

    def topics_changed(self, changes: TopicChanges) -> None:
        """Subscribed groups compare their topics with the next heartbeat."""
        for groups in self._runtimes:
            groups.topics_changed(changes)

    def perform(self, group: Group, effects: Effects) -> None:
        """Perform a group's effects and schedule its next wake-up. If this raises, the shard is lost."""
        try:
            for effect in effects:
                if isinstance(effect, Answer):
                    _answer(effect)
                else:
                    self._persist(group, effect)
            self._schedule(group)
            if self.groups.get(group.group_id) is group:
                self.memory.holds(group.group_id, group.members.held_bytes)
        except Exception as error:
            self.fail(error)
            raise

    # What group_runtime.py needs to know of other kinds of groups.

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something in the background until the shard ends."""
        self._spawn(work)

    def classic_group(self, group_id: str) -> Group | None:
        return self.groups.get(group_id)

    def is_taken(self, group_id: str, kind: str) -> bool:
        return any(groups.kind != kind and groups.find(group_id) is not None for groups in self._runtimes)

    def is_written_elsewhere(self, group_id: str, kind: str) -> bool:
        return group_id in self._persisting or any(
            groups.kind != kind and groups.is_writing(group_id) for groups in self._runtimes
        )

    def settled(self, group_id: str, kind: str) -> None:
        for groups in self._runtimes:
            if groups.kind != kind:
                groups.settled_elsewhere(group_id)

    def classic_replaced(self, group_id: str) -> None:
        """A group of a new protocol replaced the classic one: waiting members have to rejoin."""
        if self._loading is not None:
            self._loading.pop(group_id, None)
        group = self.groups.pop(group_id, None)
        if group is not None:
            self._wake_ups.forget(group_id)
            self.perform(group, group.unload(ErrorCode.REBALANCE_IN_PROGRESS))
            self.memory.forget(group_id)

    def rebalance_classic(self, group_id: str) -> None:
        group = self.groups.get(group_id)
        if group is not None:
            self.perform(group, group.rebalance(self.now()))

    def _persist(self, group: Group, persist: Persist) -> None:
        try:
            if any(groups.is_writing(group.group_id) for groups in self._runtimes):
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the group is becoming one of a new protocol")
            record = (encode_key(GroupMetadataKey(group=group.group_id)), encode_value(persist.value))
            size_bytes = sum(map(len, record))
            if size_bytes > self._config.message_max_bytes:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a group's record of {size_bytes} bytes, {self._config.message_max_bytes} are allowed",
                )
        except (KafkaError, struct.error) as error:
            # Clients choose the length of names and assignments, so only their group fails.
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
                self.settled(group.group_id, CLASSIC)
            except Exception as error:  # noqa: BLE001 any bug is answered or logged
                self.fail(error)

        done.add_done_callback(finish)

    def _persisted(self, group: Group, persist: Persist, error: BaseException | None) -> None:
        if error is None:
            self.perform(group, group.answer_replaced_member(persist, self.now()))
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

        `producer`: for a transactional commit, which `transactions` has just admitted.
        """
        ticket = self.offsets.begin(group_id, partitions)
        done = self.append(records, producer)
        if producer is not None:
            self.transactions.writing(producer, done)
        offsets = self.offsets

        def finish(_done: asyncio.Future[int]) -> None:
            offsets.end(group_id, ticket)
            self._commit_ended(ticket)

        done.add_done_callback(finish)
        await asyncio.shield(done)  # a client that disconnects does not cancel the append
        self._metrics.commits += len(partitions)

    def commit_run(self, plan: CommitPlan, committed: Sequence[Committed], done: CommitDone) -> None:
        """Like `commit`, for a plan's partitions and without a task; `done` is called at its end."""
        CommitRun(self, plan, committed, self._clock.now_ms(), done).begin()

    def run_ended(self, run: CommitRun, error: KafkaError | None) -> None:
        """Called by CommitRun when its records are applied, or were refused."""
        self.append_ended(error)
        self._commit_ended(run.ticket)
        if error is None:
            self._metrics.commits += len(run.plan.partitions)

    async def write_marker(self, marker: TransactionMarker) -> None:
        """End a producer's transaction; returns when its committed offsets are visible. Raises KafkaError."""
        self.transactions.check_marker(marker)
        done = self.append_marker(marker)
        self.transactions.ending(marker.producer_id, done)
        await asyncio.shield(done)

    async def settle(self, group_id: str) -> None:
        """Wait until the group's commits now in flight have ended, successfully or not."""
        waiting = [
            self._settling.setdefault(ticket, self._loop.create_future()) for ticket in self.offsets.in_flight(group_id)
        ]
        if waiting:
            await asyncio.wait(waiting)

    def _commit_ended(self, ticket: int) -> None:
        waited = self._settling.pop(ticket, None)
        if waited is not None:
            waited.set_result(None)

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return
        try:
            named = decode_key(key)
            decoded = decode_value(named, value)
            if isinstance(named, UnknownKey):
                if is_consumer_key(named.key_type):
                    self.consumer.replay(key, value)
                elif is_streams_key(named.key_type):
                    self.streams.replay(key, value)
                elif is_share_key(named.key_type):
                    self.share.replay(key, value)
                elif is_lane_key(named.key_type):
                    self.lanes.states.replay(key, value)
        except MalformedMessage as error:
            _log.error("group_record_skipped", shard=self.number, error=str(error))
            return
        if isinstance(named, OffsetCommitKey):
            self.offsets.replay(named, decoded if isinstance(decoded, OffsetCommitValue) else None)
        elif isinstance(named, UnknownKey):
            return  # handled above, or a share group's, which bmq does not keep yet
        else:
            self._apply_group(named.group, decoded if isinstance(decoded, GroupMetadataValue) else None)

    def replay_transactional(self, key: bytes | None, value: bytes | None, offset: int, producer: Producer) -> None:
        self.offsets.pending.open(*producer)
        if key is None:
            return
        try:
            named = decode_key(key)
            decoded = decode_value(named, value)
        except MalformedMessage as error:
            _log.error("group_record_skipped", shard=self.number, error=str(error))
            return
        if isinstance(named, OffsetCommitKey):
            committed = decoded if isinstance(decoded, OffsetCommitValue) else None
            self.offsets.replay_pending(producer.producer_id, named, committed, offset)
        else:
            self.replay(key, value)  # only offsets wait for the transaction's end

    def replay_end(self, producer: Producer, is_commit: bool) -> None:
        self.offsets.replay_end(producer.producer_id, is_commit=is_commit)
        self.transactions.ended(producer)

    def _apply_group(self, group_id: str, value: GroupMetadataValue | None) -> None:
        if value is not None:
            for groups in self._runtimes:
                groups.drop(group_id)  # the group was of another kind before
        if self._loading is not None:
            # Only a group's last record counts, so groups are created after all records have been read.
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
        """Drop a group that was never written and has no members (its first JoinGroup failed, or the client never came
        back).

        Not while one of its records is in flight: that would be applied to the next group of this name.
        """
        is_here = self.groups.get(group.group_id) is group
        if is_here and group.is_unused and group.group_id not in self._persisting:
            del self.groups[group.group_id]
            self._wake_ups.forget(group.group_id)
            self.memory.forget(group.group_id)

    # ---------------------------------------------------------------- snapshots

    def durable_state(self) -> ShardState:
        """The present durable state of groups and offsets, according to the log."""
        return ShardState(
            [(group_id, group.written) for group_id, group in self.groups.items() if group.written is not None],
            self.offsets.copied(),
            self.offsets.pending.copied(),
            [*(copy for groups in self._runtimes for copy in groups.copied()), *self.lanes.states.copied()],
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
        return min(self._wake_ups.next_ms, *(groups.wake_ms for groups in self._runtimes))

    def _schedule(self, group: Group) -> None:
        if not self.is_lost and self._wake_ups.schedule(group.group_id, group.wake_ms):
            self.arm()

    def after_stall(self) -> None:
        """Members' heartbeats are unread in the sockets, or were dropped there."""
        loop_ms = self.now().loop_ms
        for group in self.groups.values():
            group.after_stall(loop_ms)
        for groups in self._runtimes:
            groups.after_stall()

    def tick(self, now: Moment) -> None:
        for groups in self._runtimes:
            groups.tick(now)
        for group_id in self._wake_ups.due(now.loop_ms):
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
        """Write tombstones for expired offsets and groups; a bounded number of offsets in each turn of the loop."""
        try:
            self._expire_some(left)
        except Exception as error:  # noqa: BLE001 deciding changes nothing, so the next round can do it
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
            runtime, new = self.find_new(group_id)
            looked_at += 1 + self.offsets.count_of(group_id)
            expired, is_empty = self.offsets.expire(group_id, new or group, now_ms)
            self._metrics.expired_offsets += len(expired)
            records += expired
            if is_empty and group is not None and group.state is GroupState.EMPTY and group.written is not None:
                records.append((encode_key(GroupMetadataKey(group=group_id)), None))
            if is_empty and runtime is not None and new is not None and not new.members:
                self._spawn(self._delete_unused(group_id, runtime))
        if records:
            _log.info("group_offsets_expired", shard=self.number, tombstones=len(records))
            self.append(records)

    async def _delete_unused(self, group_id: str, runtime: NewRuntime) -> None:
        """Delete an empty group of a new protocol whose last offset has expired."""

        def decide(draft: GroupDraft[Any, Any, Any], context: object) -> None:
            if draft.group is not None and not draft.group.members and not self.offsets.has_group(group_id):
                draft.delete()

        with contextlib.suppress(KafkaError):  # the next round tries again
            await runtime.decide(group_id, decide)


def _answer(effect: Answer) -> None:
    # The client may be gone, and its future cancelled.
    if not effect.caller.done():
        effect.caller.set_result(effect.response)
