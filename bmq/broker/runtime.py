"""One partition at its owner: performs what partition.py decides, and implements PartitionLog for everybody else.

The runtime is the machine: its state, events and effects, and orders from the manager. What it serves is in its parts:
appends, reads, retention, compaction, markers.

The hot path has no task and no await: `append` checks a batch and lets the machine place it; batches that arrive in one
event loop turn go out as one append; when that is durable the batches enter the tail cache, the high watermark moves,
and then the callbacks run. Callbacks always run after a step is complete, so they may append again.

Rule 23: any exception while an effect is performed takes the partition offline. Everything not answered yet gets an
error, and results of earlier appends are ignored: memory may be ahead of the file, or behind it.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, cast

import structlog

from bmq.broker import partition_events as ev
from bmq.broker.append_checks import AppendChecks
from bmq.broker.appends import PartitionAppends
from bmq.broker.batch_refusals import BatchRefusals
from bmq.broker.compaction.partition_compaction import PartitionCompaction
from bmq.broker.context import BrokerContext
from bmq.broker.group_backlog import Backlog, lift_refusal
from bmq.broker.half.half_appends import HalfAppends
from bmq.broker.half.half_checks import HalfChecks
from bmq.broker.half.partition_half import PartitionHalf
from bmq.broker.log_reads import LogReads
from bmq.broker.log_writes import LogWrites
from bmq.broker.manifest_changes import ManifestChanges
from bmq.broker.marker_writer import MarkerWriter
from bmq.broker.min_insync_tracker import replicas_min
from bmq.broker.offset_assignment import OffsetAssignment
from bmq.broker.outbox import Outbox
from bmq.broker.own_directory import OwnDirectory
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.ownership import Ownership
from bmq.broker.partition_load import Figures, PartitionLoad
from bmq.broker.partition_machine import offline, step
from bmq.broker.partition_offline import PartitionOffline
from bmq.broker.partition_reports import PartitionReports
from bmq.broker.partition_retention import PartitionRetention
from bmq.broker.partition_start import start
from bmq.broker.partition_states import Fenced, Mending, Offline, Opening, Owning, Recovering, State, Writing
from bmq.broker.replica_guard import ReplicaGuard
from bmq.broker.segment_files import SegmentLifecycle
from bmq.broker.start_effects import StartEffects
from bmq.broker.starting import Start
from bmq.broker.tail_cache import PartitionTail
from bmq.broker.timers.dead_retries import DeadRetries
from bmq.broker.timers.deliveries import Deliveries
from bmq.broker.timers.partition_timers import PartitionTimers
from bmq.broker.transaction_guard import TransactionGuards
from bmq.broker.transaction_verification import TransactionVerification
from bmq.broker.upkeep import Upkeep
from bmq.log.aborted_transactions import AbortedTransactions
from bmq.log.config import LogConfig
from bmq.log.names import PartitionPaths
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import (
    ENDS_THE_PROCESS,
    AbortedTransaction,
    Batch,
    Location,
    ProducedBatch,
    Span,
    StateSnapshot,
    TopicPartition,
    WholeBatches,
)
from bmq.log.timers.announcements import Position
from bmq.log.timers.delayed_page import DelayedPage
from bmq.log.transactions import ActiveProducer, TransactionMarker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError

PREOPEN_SHARE: Final = 0.75  # the next segment is opened when this share of the current one is written

_log = structlog.get_logger("bmq.broker")


def limits_of(config: LogConfig, context: BrokerContext) -> ev.Limits:
    """The machine's limits, from the topic's settings and the store."""
    segment_bytes, wanted = config.segment_bytes, context.store.replicas_wanted
    return ev.Limits(
        segment_bytes,
        int(segment_bytes * PREOPEN_SHARE),
        context.settings.appends_outstanding_max,
        wanted,
        replicas_min(config, wanted),
        context.alignment_bytes(config.durability),
    )


class RuntimeParts(NamedTuple):
    """A runtime's parts, for inspection from outside. `files`: None until it owns the partition."""

    paths: PartitionPaths
    start: Start
    lifecycle: SegmentLifecycle
    tail: PartitionTail
    guard: ReplicaGuard
    changes: ManifestChanges
    files: PartitionFiles | None


class PartitionRuntime:
    """See the module's head. `on_change` is called when it begins to own the partition and when it ends."""

    topic_partition: TopicPartition
    topic_name: str
    retention: PartitionRetention
    compaction: PartitionCompaction
    timers: PartitionTimers
    half: PartitionHalf

    def __init__(
        self,
        context: BrokerContext,
        topic_partition: TopicPartition,
        topic_name: str,
        leader_epoch: int,
        config: LogConfig,
        floor: int,
        on_change: Callable[[PartitionRuntime], None],
    ) -> None:
        limits = limits_of(config, context)
        state, self._first_effects = start(leader_epoch, limits, floor)
        self._offline = Offline(leader_epoch, limits)
        self.topic_partition = topic_partition
        self.topic_name = topic_name
        self._context = context
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._turns = context.turns
        self.tasks: dict[asyncio.Task[None], None] = {}  # ended in this order
        self._open_backoff = context.backoff()
        self._is_given_up = False
        self._is_feeding = False
        self._events: deque[ev.Event] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self.started: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._partition = OwnedPartition(
            context, topic_partition, topic_name, leader_epoch, config, state, machine=self
        )
        self._join_parts(floor)

    def _join_parts(self, floor: int) -> None:
        """Make the parts, those that others use first."""
        partition, context = self._partition, self._context
        paths, config = partition.paths, partition.config
        directory = OwnDirectory(context.store, paths.own)
        self._lifecycle = lifecycle = SegmentLifecycle(
            context, paths, directory, config, self.feed, lambda: partition.state.is_final, self.spawn
        )
        self._start = Start(
            context, paths, directory, config.segment_index_interval_bytes, durability=config.durability
        )
        self._reports = PartitionReports(partition, self._start)
        self._outbox = Outbox(partition)
        self._guards = guards = TransactionGuards()
        self._ownership = Ownership(partition, lifecycle)
        self._guard = guard = ReplicaGuard(partition)
        self._changes = changes = ManifestChanges(partition, self._ownership)
        self._reads = LogReads(partition, lifecycle)
        dead = DeadRetries(partition, self._ownership)
        self.half = half = PartitionHalf(partition, self._reads.read)
        self.timers = timers = Deliveries(partition, changes, self._reads, guard, dead, half).timers
        half.checks = HalfChecks(partition, half, timers, guard, self._ownership)
        self._start_effects = StartEffects(partition, self._start, directory, lifecycle, changes, timers, floor)
        self.retention = PartitionRetention(partition, changes)
        self.compaction = PartitionCompaction(partition, changes)
        self._upkeep = Upkeep(partition, lifecycle, guard, self.compaction.delegation)
        refusals = BatchRefusals(partition, self._ownership, guard)
        checks = AppendChecks(partition, refusals, guard)
        offset_assignment = OffsetAssignment(partition, guards, refusals)
        verification = TransactionVerification(partition, guards, checks, refusals, offset_assignment)
        holds = HalfAppends(partition, timers, half, refusals, dead)
        self._appends = PartitionAppends(partition, guard, checks, refusals, verification, offset_assignment, holds)
        self._markers = MarkerWriter(partition, self._ownership, guard, refusals, offset_assignment)
        self._writes = LogWrites(partition, lifecycle, self._outbox, refusals, guard)

    def begin(self) -> None:
        """Start. `started` resolves when it owns the partition, or fails with the reason."""
        self._reports.begin()
        effects, self._first_effects = self._first_effects, ()
        try:
            self._perform(effects)
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self.fail(error)

    # --- its state

    def inspect(self) -> RuntimeParts:
        partition = self._partition
        return RuntimeParts(
            partition.paths, self._start, self._lifecycle, partition.tail, self._guard, self._changes, partition.files
        )

    @property
    def config(self) -> LogConfig:
        return self._partition.config

    @property
    def load(self) -> PartitionLoad:
        return self._partition.load

    def figures(self) -> Figures:
        """Counters since this partition was started here, and the size of its log; 0 before."""
        load, files, recovered = self.load, self._partition.files, self._start.recovered
        records = 0 if recovered is None else max(0, self.high_watermark - recovered.end_offset)
        return Figures(load.bytes_in, records, load.bytes_out, 0 if files is None else files.size_bytes)

    @property
    def backlog(self) -> Backlog:
        return self._partition.backlog

    @property
    def state(self) -> State:
        return self._partition.state

    @property
    def state_name(self) -> str:
        """For people and metrics: the machine's state in lower case, `awaiting_segment`."""
        return re.sub(r"\B(?=[A-Z])", "_", type(self.state).__name__).lower()

    def offline_error(self) -> PartitionOffline:
        """The error for callers while the partition is offline."""
        return self._reports.offline_error()

    @property
    def is_owning(self) -> bool:
        return self._partition.is_owning

    @property
    def is_under_replicated(self) -> bool:
        """Some segment has records and is on fewer nodes than a file of the store has when all are healthy: the open one, or
        one that lost a node and is not closed yet.
        """
        state, lifecycle = self.state, self._lifecycle
        if lifecycle.is_closing_broken or not isinstance(state, Writing):
            return lifecycle.is_closing_broken
        segment = lifecycle.segments.get(state.segment.roll)
        if segment is None or not segment.written_bytes:
            return False
        return segment.writer.is_broken or state.replicas < state.limits.replicas_wanted

    @property
    def upkeep_due_s(self) -> float:
        """`upkeep` need not be called before."""
        return self._upkeep.due_s

    # --- as PartitionLog and ReplayableLog

    @property
    def leader_epoch(self) -> int:
        return self._partition.leader_epoch

    @property
    def log_start_offset(self) -> int:
        return self._partition.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self._partition.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._partition.last_stable_offset

    @property
    def log_end_offset(self) -> int:
        return self._partition.log_end_offset

    @property
    def compacted_offset(self) -> int:
        return self.compaction.compacted_offset

    @property
    def aborted(self) -> AbortedTransactions:
        return self._reads.aborted

    @property
    def epoch_starts(self) -> Sequence[tuple[int, int]]:
        return self._reads.epoch_starts

    def on_advance(self, wake: Callable[[], None]) -> Callable[[], None]:
        """As PartitionLog.on_advance; once the runtime has ended, `wake` is called soon, because nothing will move."""
        waiters = self._partition.waiters
        if self.state.is_final:
            self._loop.call_soon(waiters.wake_all)
        return waiters.add(wake)

    def append(self, batch: ProducedBatch) -> None:
        self._appends.append(batch)

    def tail_read(self, offset: int, length_bytes_max: int, bound_offset: int) -> Sequence[memoryview] | None:
        return self._reads.tail_read(offset, length_bytes_max, bound_offset)

    async def locate(self, offset: int) -> Location:
        return await self._reads.locate(offset)

    def span(self, offset: int, length_bytes_max: int, bound_offset: int) -> Span | None:
        return self._reads.span(offset, length_bytes_max, bound_offset)

    async def read(self, offset: int, length_bytes_max: int) -> WholeBatches | None:
        return await self._reads.read(offset, length_bytes_max)

    async def offset_for_timestamp(self, timestamp_ms: int, bound_offset: int) -> tuple[int, int] | None:
        return await self._reads.offset_for_timestamp(timestamp_ms, bound_offset)

    async def max_timestamp(self) -> tuple[int, int] | None:
        return await self._reads.max_timestamp()

    def aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        return self._reads.aborted_transactions(from_offset, to_offset)

    async def find_aborted_transactions(self, from_offset: int, to_offset: int) -> Sequence[AbortedTransaction]:
        return await self._reads.find_aborted_transactions(from_offset, to_offset)

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        return self._reads.epoch_end_offset(leader_epoch)

    async def latest_snapshot(self) -> StateSnapshot | None:
        return await self._reads.latest_snapshot()

    async def save_snapshot(self, snapshot: StateSnapshot) -> None:
        await self._changes.save_snapshot(snapshot)

    async def delete_records(self, before_offset: int) -> int:
        return await self._changes.delete_records(before_offset)

    async def prove_ownership(self) -> None:
        await self._ownership.prove()

    async def write_marker(self, marker: TransactionMarker) -> None:
        """As MarkerWriter.write."""
        await self._markers.write(marker)

    async def active_producers(self) -> Sequence[ActiveProducer]:
        return await self._markers.active_producers()

    async def delayed_records(self, after: Position, limit: int) -> DelayedPage:
        return await self.timers.page(after, limit)

    # --- the machine

    def feed(self, event: ev.Event) -> None:
        """As Machine.feed."""
        if self._is_feeding:
            self._events.append(event)
            return
        self._is_feeding = True
        try:
            self._take(event)
            while self._events:
                self._take(self._events.popleft())
        finally:
            self._is_feeding = False
        if self._outbox.batches or self._outbox.is_wake_due:
            self._outbox.send()

    def _take(self, event: ev.Event) -> None:
        partition = self._partition
        before = partition.state
        self._upkeep.due_s = 0.0
        effects: tuple[ev.Effect, ...] = ()
        try:
            after, effects = step(before, event)
            if after is not before:
                partition.state = after
                self._guard.state_changed()
                if type(after) is not type(before):
                    self._changed(before, after)
            self._perform(effects)
        except BaseException as error:
            self._break_off(error, event, effects)
            if isinstance(error, ENDS_THE_PROCESS):
                raise

    def _break_off(self, error: BaseException, event: ev.Event, effects: tuple[ev.Effect, ...]) -> None:
        """Rule 23: a step or its effects were carried out in part. Nothing more is acknowledged, not even earlier
        appends.

        Each unanswered batch is put into the outbox exactly once, so its bytes go back to the budget exactly once.
        """
        partition, waiting = self._partition, self._outbox.batches
        state, log = partition.state, partition.log
        if not state.is_final:
            partition.state = self._offline  # first of all, and it takes no memory: nothing is acknowledged any more
        unanswered: dict[Batch, None] = dict.fromkeys(batch for batch, _ in waiting)
        if log is not None:
            unanswered.update(dict.fromkeys(log.taken))
        if state.is_final:
            _log.error("partition_end_failed", **partition.names(), exc_info=error)
        else:
            _, more = offline(state)
            effects = (*effects, *more)
            self._reports.offline(error)
        if log is not None:
            log.taken = ()
        for effect in effects:
            if isinstance(effect, ev.WriteBatches | ev.Acknowledge | ev.Reject):
                unanswered.update(dict.fromkeys(effect.batches))
        if isinstance(event, ev.ProduceArrived):
            unanswered[event.batch] = None
        waiting.clear()
        for batch in unanswered:
            self._outbox.refuse(cast(ProducedBatch, batch), ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._abandon(ev.Abandon())

    def _perform(self, effects: tuple[ev.Effect, ...]) -> None:
        for effect in effects:
            _PERFORMERS[type(effect)](self, effect)

    def _changed(self, before: State, after: State) -> None:
        if not before.is_owning and isinstance(after, Owning):
            self._partition.log = after.log
            self._guard.tracker.assured_offset = after.log.high_watermark
            self._context.counts.starts += 1
            self._outbox.is_wake_due = True
            if not self.started.done():
                self.started.set_result(None)
            self._on_change(self)
            self._reports.started()
            self.timers.start_deliveries()
            if self.compaction.is_rewriting:
                self.spawn(self.compaction.remove_unnamed())

    # --- effects that run as tasks

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """As Machine.spawn."""
        try:
            task = self._loop.create_task(work)
        except BaseException:
            work.close()
            raise
        self.tasks[task] = None
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self.tasks.pop(task, None)
        # A task cancelled while the partition lives on has not done its work either.
        error = asyncio.CancelledError("an effect was cancelled") if task.cancelled() else task.exception()
        if error is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """As Machine.fail."""
        if not self.state.is_final:
            self._reports.offline(error)
            self.feed(ev.EffectFailed())

    def _persist(self, action: Callable[[], Coroutine[Any, Any, ev.Event | None]]) -> None:
        self.spawn(self._start_effects.persist(action))

    def _open_segment(self, effect: ev.OpenSegment) -> None:
        if isinstance(self.state, Recovering | Opening):
            self._persist(self._lifecycle.open_first)
        else:
            self.spawn(self._lifecycle.open_or_report(effect.roll))

    def _acknowledge(self, effect: ev.Acknowledge) -> None:
        self._writes.acknowledge(effect)
        if effect.batches and self._open_backoff.failures:
            self._open_backoff.reset()

    def _mend(self, effect: ev.MendSegment) -> None:
        state = self.state
        assert isinstance(state, Mending)
        written = cast("deque[ProducedBatch]", state.log.written)
        self.spawn(self._lifecycle.mend(effect.segment, written, is_full=state.is_full))

    def _seal(self, effect: ev.SealSegment) -> None:
        self._lifecycle.end(effect.segment.roll)
        self.spawn(self._lifecycle.seal(effect.segment, effect.end_offset))

    def _discard(self, effect: ev.DiscardSegment) -> None:
        self._lifecycle.end(effect.roll)
        self._lifecycle.throw_away(effect.roll)

    def _retry_later(self, _: ev.RetryLater) -> None:
        if self._open_backoff.failures == 0:
            reason = "the store takes nothing now; trying again"
            _log.warning("partition_blocked", **self._partition.names(), reason=reason)
        self._retry = self._loop.call_later(self._open_backoff.next_s(), self.feed, ev.RetryDue())

    def _abandon(self, _: ev.Abandon) -> None:
        """The machine has ended. Never raises: if one step fails, the others still release and answer everything."""
        partition = self._partition
        self._writes.end()
        self.timers.end()
        self._outbox.is_wake_due = True
        if self._retry is not None:
            self._retry.cancel()
        self._attempt(self._refuse_held)
        self._attempt(self._abandon_writers)
        self._attempt(partition.tail.clear)
        self._attempt(lambda: self._context.indexes.drop_partition(partition.paths.partition))
        if isinstance(partition.state, Fenced) and not self._is_given_up:
            self._context.counts.fenced += 1
            _log.warning("partition_fenced", **partition.names(), high_watermark=self.high_watermark)
        if not self.started.done():
            error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the partition is {self.state_name}")
            if isinstance(partition.state, Offline):
                error = self.offline_error()
            self.started.set_exception(error)
            self.started.exception()  # waiting callers still get it; without any, asyncio would log a warning
        if not self.ended.done():
            self.ended.set_result(None)
        self._attempt(lambda: self._on_change(self))

    def _refuse_held(self) -> None:
        """Refuse batches that wait for their coordinator's verdict, or to be opened: the next owner will do it."""
        for batch, _, _ in self._guards.end_all():
            self._outbox.refuse(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._context.counts.refused_batches += self._appends.refuse_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:  # noqa: BLE001 any bug is answered or logged
            _log.exception("partition_end_failed", **self._partition.names())

    def _abandon_writers(self) -> None:
        try:
            self._lifecycle.abandon()
        except Exception:
            # Abandon each writer on its own, so one failure does not spare the others; abandoning twice is harmless.
            for segment in self._lifecycle.segments.values():
                self._attempt(segment.writer.abandon)
            self._lifecycle.segments.clear()
            raise

    # --- orders from the manager

    def stop(self) -> None:
        """Drain, seal, save the checkpoint, seal the directory; `ended` resolves when done."""
        self._refuse_held()
        self._lifecycle.leave()
        self.feed(ev.StopRequested())

    def give_up(self) -> None:
        """The topic is deleted or somebody else owns the partition: refuse batches on their way and let go."""
        self._is_given_up = True
        self.feed(ev.OwnershipLost())

    def update_config(self, config: LogConfig) -> None:
        """Raises only before anything has changed."""
        self._appends.config_changed(config)
        self._partition.config = config
        self._lifecycle.config = config
        self.timers.config_changed(config)
        self.backlog.ask_again()
        if not config.has_backlog_quota:
            lift_refusal(self)
        self.feed(ev.LimitsChanged(limits_of(config, self._context)))

    def upkeep(self, now_s: float, now_ms: int) -> None:
        """Called every second or so: roll by age, close a segment that nobody writes to, look for lost replicas."""
        self._upkeep.run(now_s, now_ms)


_PERFORMERS: Final[dict[type[ev.Effect], Callable[[PartitionRuntime, Any], object]]] = {
    ev.ClaimDirectory: lambda self, _: self._persist(self._start.claim),
    ev.SealDirectories: lambda self, effect: self._persist(partial(self._start.seal, effect)),
    ev.CloseFile: lambda self, effect: self._persist(partial(self._start.close, effect)),
    ev.WalkLog: lambda self, _: self._persist(self._start_effects.walk),
    ev.WriteManifest: lambda self, _: self._persist(self._start_effects.record),
    ev.OpenSegment: PartitionRuntime._open_segment,  # noqa: SLF001 of the same class
    ev.ScheduleWrite: lambda self, _: self._turns.schedule(self._writes.due),
    ev.WriteBatches: lambda self, effect: self._writes.write(effect),
    ev.Acknowledge: PartitionRuntime._acknowledge,  # noqa: SLF001 of the same class
    ev.Reject: lambda self, effect: self._writes.reject(effect),
    ev.SaveRecoveredIndexes: lambda self, _: self.spawn(self._lifecycle.save_recovered()),
    ev.MendSegment: PartitionRuntime._mend,  # noqa: SLF001 of the same class
    ev.SealSegment: PartitionRuntime._seal,  # noqa: SLF001 of the same class
    ev.DiscardSegment: PartitionRuntime._discard,  # noqa: SLF001 of the same class
    ev.RetryLater: PartitionRuntime._retry_later,  # noqa: SLF001 of the same class
    ev.SealOwnDirectory: lambda self, _: self.spawn(self._lifecycle.release()),
    ev.Abandon: PartitionRuntime._abandon,  # noqa: SLF001 of the same class
}
