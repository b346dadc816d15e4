"""One coordinator shard: performs what group.py and offsets.py decide, over one partition of `__consumer_offsets`.

State changes only in `_apply`, which StateLog calls with records that are durable, live and after a restart alike. One
heap of wake-up times and one timer serve all groups of the shard: a heartbeat touches neither.

A shard whose log says that another owns it now is lost: everybody who waits is sent to find the coordinator again and
the state is thrown away. So is one in which something raised while state was changed or answers were given (rule 23):
who asks next has it loaded from the log again.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.effects import Answer, Effects, GroupState, Moment, Persist
from bmq.coordinator.group import Group
from bmq.coordinator.member import NEVER_MS, Caller
from bmq.coordinator.metrics import GroupMetrics
from bmq.coordinator.offset_columns import PackedOffsets
from bmq.coordinator.offsets import Offsets, Record
from bmq.coordinator.snapshot import ShardState, decode_snapshot, encode_snapshot
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.state_log import SnapshotPolicy, StateLog
from bmq.log.store import FencedWriter
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

_LOST: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})

_LATE_WAKE_MS: Final = 1_000
"""A timer that fires so much too late says that this process was held up, and so were heartbeats it has not read yet."""
_STALE_WAKE_UPS_MAX: Final = 64
_PARTS_PER_TURN_MAX: Final = 2_000
_SNAPSHOT_SHARE: Final = 8
"""A state is saved when at least the eighth part of it may have changed."""

_APPEND_ERRORS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


_NOTHING_WRITTEN: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
    }
)


def deletion_error(error: BmqError) -> ErrorCode:
    """As coordinator_error, of tombstones that were handed to the log: REQUEST_TIMED_OUT where they may be in it.

    After a coordinator's error a client sends the deletion again, and would delete what was committed since.
    """
    return coordinator_error(error) if error.code in _NOTHING_WRITTEN else ErrorCode.REQUEST_TIMED_OUT


def coordinator_error(error: BmqError) -> ErrorCode:
    """What a group's client is told of an error of the shard's log (GroupMetadataManager's mapping)."""
    return _APPEND_ERRORS.get(error.code, error.code)


class Shard:
    """Groups and offsets of one partition. `is_lost` once another owner has it."""

    def __init__(
        self,
        number: int,
        log: ReplayableLog,
        clock: Clock,
        config: CoordinatorConfig,
        metrics: GroupMetrics,
        on_lost: Callable[[Shard], None],
    ) -> None:
        self.number = number
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets(config)
        self.is_lost = False
        self.state_log = StateLog(log, clock, SnapshotPolicy(config.snapshot_records_max, config.snapshot_bytes_max))
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._loading: dict[str, GroupMetadataValue] | None = {}
        self._heap: list[tuple[float, str]] = []
        self._scheduled: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = NEVER_MS
        self._expiry: asyncio.Handle | None = None
        self._commits: dict[str, set[asyncio.Future[int]]] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}  # ended in this order
        self._callers: dict[Caller, None] = {}  # wait for a group's answer

    # ---------------------------------------------------------------- life

    async def load(self) -> None:
        """Replay the log. Raises KafkaError, StoreError."""
        started = self._loop.time()
        count = await self.state_log.replay(self._apply, self._apply_snapshot)
        loading, self._loading = self._loading or {}, None
        now = self.now()
        for group_id, value in loading.items():
            group = self.groups[group_id] = Group(group_id, self._config)
            self.perform(group, group.load(value, now))
        self._metrics.loaded_shards += 1
        self._schedule_expiry()
        self._save_snapshot_if_due()
        _log.info(
            "group_shard_loaded",
            shard=self.number,
            records=count,
            groups=len(self.groups),
            offsets=self.offsets.count,
            duration_ms=round((self._loop.time() - started) * 1000),
        )

    def lose(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Another owner has the log now, or we stop: answer who waits, forget everything."""
        if self.is_lost:
            return
        self.is_lost = True
        self.close()
        for group in self.groups.values():
            try:
                for effect in group.unload(error):
                    if isinstance(effect, Answer):
                        _answer(effect)
            except Exception:  # the other groups' members wait as well
                _log.exception("group_not_unloaded", shard=self.number, group=group.group_id)
        for caller in self._callers:
            if not caller.done():  # its group forgot it when something raised
                caller.set_exception(KafkaError(error))
        self.groups = {}
        self.offsets = Offsets(self._config)
        self._metrics.lost_shards += 1
        _log.warning("group_shard_lost", shard=self.number)
        self._on_lost(self)

    def fail(self, error: BaseException) -> None:
        """Something raised half-way, so what is in memory may differ from the log: throw it away, loudly."""
        if not self.is_lost:
            _log.error("group_shard_failed", shard=self.number, error=repr(error), exc_info=error)
            self.lose()

    def close(self) -> None:
        """Stop timers and background writes."""
        for handle in (self._timer, self._expiry):
            if handle is not None:
                handle.cancel()
        self._timer = self._expiry = None
        for task in self._tasks:
            task.cancel()

    # ---------------------------------------------------------------- groups

    def now(self) -> Moment:
        return Moment(self._loop.time() * 1000, self._clock.now_ms())

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

    async def answer_of(self, caller: Caller) -> Any:
        """What the group answers, sooner or later. Raises KafkaError when the shard was lost without an answer."""
        self._callers[caller] = None
        try:
            return await caller
        finally:
            self._callers.pop(caller, None)

    def _persist(self, group: Group, persist: Persist) -> None:
        key = encode_key(GroupMetadataKey(group=group.group_id))
        done = self.append([(key, encode_value(persist.value))])

        def finish(done: asyncio.Future[int]) -> None:
            if self.is_lost or done.cancelled():
                return
            try:
                self._persisted(group, persist, done.exception())
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

    def append(self, records: Sequence[Record]) -> asyncio.Future[int]:
        """As StateLog.append; losing the log loses the shard."""
        done = self.state_log.append(records)
        done.add_done_callback(self._appended)
        return done

    async def commit(self, group_id: str, partitions: Sequence[tuple[str, int]], records: Sequence[Record]) -> None:
        """Write a decided commit; returns when it is applied. Raises KafkaError."""
        ticket = self.offsets.begin(group_id, partitions)
        done = self.append(records)
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

    async def settle(self, group_id: str) -> None:
        """Wait for the group's commits that are on their way now, whatever becomes of them."""
        waiting = self._commits.get(group_id)
        if waiting:
            await asyncio.wait(list(waiting))

    async def prove(self) -> None:
        """Rule 15 before an answer from memory. Raises KafkaError NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE."""
        try:
            await self.state_log.prove_ownership()
        except FencedWriter as error:
            self.lose()
            raise KafkaError(ErrorCode.NOT_COORDINATOR) from error
        except BmqError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        if self.is_lost:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def _appended(self, done: asyncio.Future[int]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, BmqError) and error.code in _LOST:
            self.lose()
        elif not self.is_lost:
            if isinstance(error, BmqError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._spawn(self._check_log())
            self._save_snapshot_if_due()

    async def _check_log(self) -> None:
        """The store may be full, and then all goes on. Or the partition is offline: then this log never takes anything."""
        with contextlib.suppress(BmqError):
            await self.prove()

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        """The only place where durable state changes."""
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
        """Drop a group that was never written and has nobody in it (a first JoinGroup that failed, or never came back)."""
        if group.is_unused and self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]
            self._scheduled.pop(group.group_id, None)

    # ---------------------------------------------------------------- snapshots

    def durable_state(self) -> ShardState:
        """What the log says of groups and offsets, as it is now."""
        return ShardState(
            [(group_id, group.written) for group_id, group in self.groups.items() if group.written is not None],
            self.offsets.copied(),
        )

    async def save_snapshot(self, *, force: bool = False) -> bool:
        """Save the state if the log since the last snapshot is long, or at once; whether it was. Raises BmqError."""
        return await self.state_log.save_snapshot(lambda: encode_snapshot(self.durable_state()), force=force)

    async def _apply_snapshot(self, data: bytes) -> None:
        for number, part in enumerate(decode_snapshot(data), 1):
            if isinstance(part, PackedOffsets):
                self.offsets.restore(part)
            else:
                self._apply(*part)
            if number % _PARTS_PER_TURN_MAX == 0:
                await asyncio.sleep(0)

    def _save_snapshot_if_due(self) -> None:
        log = self.state_log
        # A large state is not written again before a share of it may have changed: that bounds how many times over
        # everything is written, and a failover still has only so much to replay on top of what it loads.
        state_size = len(self.groups) + self.offsets.count
        if not log.is_snapshot_due or log.records_since_snapshot * _SNAPSHOT_SHARE < state_size:
            return

        async def save() -> None:
            try:
                if await self.save_snapshot():
                    _log.info("group_snapshot_saved", shard=self.number, next_offset=self.state_log.applied_offset)
            except BmqError as error:
                _log.warning("group_snapshot_failed", shard=self.number, error=str(error))

        self._spawn(save())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:  # no state rests on it: the log is only replayed from further back
            _log.error("group_shard_task_failed", shard=self.number, error=repr(error), exc_info=error)

    # ---------------------------------------------------------------- time

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
        self._arm()

    def _arm(self) -> None:
        if not self._heap or self._heap[0][0] >= self._timer_at_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = self._heap[0][0]
        self._timer = self._loop.call_at(self._timer_at_ms / 1000, self._wake)

    def stood_still(self) -> None:
        """This process stood still: members' heartbeats lie unread in the sockets, or were dropped there."""
        loop_ms = self.now().loop_ms
        for group in self.groups.values():
            group.stood_still(loop_ms)

    def _wake(self) -> None:
        due_ms, self._timer_at_ms = self._timer_at_ms, NEVER_MS
        self._timer = None
        try:
            self._tick_groups(due_ms)
        except Exception as error:
            self.fail(error)
        else:
            self._arm()

    def _tick_groups(self, due_ms: float) -> None:
        now = self.now()
        if now.loop_ms - due_ms > _LATE_WAKE_MS:
            self.stood_still()
        # The loop may run a timer a clock tick early; without this the same deadline would be armed over and over.
        now = now._replace(loop_ms=now.loop_ms + 1)
        while self._heap and self._heap[0][0] <= now.loop_ms:
            wake_ms, group_id = heapq.heappop(self._heap)
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
