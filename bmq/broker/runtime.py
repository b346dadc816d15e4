"""One partition at its owner: performs what partition.py decides, and implements PartitionLog for everybody else.

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
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, cast

import structlog

from bmq.broker import partition_events as ev
from bmq.broker.acknowledgement import ENDS_THE_PROCESS, PendingBatch, Waiters, call
from bmq.broker.admission import Admission
from bmq.broker.append_queue import Append, AppendQueue
from bmq.broker.delegated_compaction import DelegatedCompaction
from bmq.broker.group_backlog import Backlog, lift_refusal
from bmq.broker.min_insync_tracker import MinInsyncTracker, replicas_min
from bmq.broker.opener import Opened
from bmq.broker.opening_room import TooMuchWork
from bmq.broker.own_directory import OwnDirectory
from bmq.broker.own_segment import OwnSegment
from bmq.broker.partition import offline, start, step
from bmq.broker.partition_load import PartitionLoad
from bmq.broker.partition_states import (
    AwaitingSegment,
    Draining,
    Fenced,
    InFlightBatches,
    Mending,
    Offline,
    Opening,
    Owning,
    Recovering,
    State,
    Writing,
)
from bmq.broker.producer_limit import ProducerLimit
from bmq.broker.segment_lifecycle import SegmentLifecycle
from bmq.broker.starting import Start
from bmq.broker.surroundings import Surroundings
from bmq.broker.tail_cache import PartitionTail
from bmq.broker.transaction_guard import TransactionGuards
from bmq.broker.transaction_writer import TransactionWriter
from bmq.log.config import LogConfig
from bmq.log.damage import Damage, StateDamaged
from bmq.log.names import PartitionPaths, partition_directory
from bmq.log.partition_files import PartitionFiles
from bmq.log.partition_log import AppendDone, AppendResult, TopicPartition
from bmq.log.producer_state import ProducerStates
from bmq.log.refused_sequences import BEHIND_A_REFUSED_ONE, RefusedSequences
from bmq.log.retention import ExtentKey, roll_base_after, roll_due_ms
from bmq.log.segment_index import IndexBuilder
from bmq.log.store import Appended, CorruptFile, FencedWriter, StorageFull, StoreError
from bmq.log.transactions import TransactionClaim
from bmq.protocol.control_batch import parse_end_transaction_marker
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_batch import TRANSACTIONAL, BatchHeader

INDEX_ENTRIES_MAX: Final = 1_000_000
PREOPEN_SHARE: Final = 0.75  # the next segment is opened when this share of the current one is written
UPKEEP_REST_S_MAX: Final = 10.0  # the wall clock may be set, and a job's reservation expires

_log = structlog.get_logger("bmq.broker")


def limits_of(config: LogConfig, surroundings: Surroundings) -> ev.Limits:
    """The machine's limits, from the topic's settings and the store."""
    segment_bytes, wanted = config.segment_bytes, surroundings.store.replicas_wanted
    return ev.Limits(
        segment_bytes,
        int(segment_bytes * PREOPEN_SHARE),
        surroundings.settings.appends_outstanding_max,
        wanted,
        replicas_min(config, wanted),
        surroundings.alignment_bytes(config.durability),
    )


class PartitionOffline(KafkaError):
    """The partition serves nobody until an operator has decided (rules 5 and 25)."""

    def __init__(self, reason: str, damage: Damage | None) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"the partition is offline: {reason}")
        self.damage = damage


class RuntimeParts(NamedTuple):
    """A runtime's parts, for inspection from outside. `files`: None until it owns the partition."""

    paths: PartitionPaths
    start: Start
    lifecycle: SegmentLifecycle
    tail: PartitionTail
    min_insync: MinInsyncTracker
    files: PartitionFiles | None


class PartitionRuntime(TransactionWriter):
    """See the module's head. `on_change` is called when it begins to own the partition and when it ends."""

    def __init__(
        self,
        surroundings: Surroundings,
        topic_partition: TopicPartition,
        topic_name: str,
        leader_epoch: int,
        config: LogConfig,
        floor: int,
        on_change: Callable[[PartitionRuntime], None],
    ) -> None:
        self.topic_partition = topic_partition
        self.topic_name = topic_name
        self.config = config
        self.load = PartitionLoad()
        self.backlog = Backlog()
        self.tasks: dict[asyncio.Task[None], None] = {}  # ended in this order
        self._surroundings = surroundings
        self._epoch = leader_epoch
        self._floor = floor
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._turns = surroundings.turns
        self._paths = PartitionPaths(partition_directory(topic_partition), leader_epoch)
        self._admission = self._admission_by(config)
        self._queue = AppendQueue(self._loop, surroundings.budget, self._take_up)
        self._directory = OwnDirectory(surroundings.store, self._paths.own)
        self._lifecycle = SegmentLifecycle(
            surroundings,
            self._paths,
            self._directory,
            config,
            self._feed,
            lambda: self._state.is_final,
            self._spawn,
        )
        self._start = Start(
            surroundings,
            self._paths,
            self._directory,
            config.segment_index_interval_bytes,
            durability=config.durability,
        )
        self._tail = surroundings.tail_cache.partition()
        self._log: InFlightBatches | None = None
        self._files: PartitionFiles | None = None
        self._producers = ProducerStates()
        self._known_times_ms: dict[ExtentKey, int] = {}
        self._refused = RefusedSequences()
        self._producer_limit = ProducerLimit(surroundings.settings.producers_max, surroundings.counts, self._names)
        self._guards = TransactionGuards()
        self._current: OwnSegment | None = None
        self._waiters = Waiters()
        self._is_guarded = False  # acks=all may have to be refused for lack of replicas
        self._min_insync = MinInsyncTracker(surroundings)
        self.delegation = DelegatedCompaction(surroundings, self)
        self._oldest_waiting: tuple[ev.Batch | None, float] = (None, 0.0)
        self.upkeep_due_s = 0.0
        self._open_backoff = surroundings.backoff()
        self._started_s = 0.0
        self._offline_reason = ""
        self._offline_damage: Damage | None = None
        self._is_given_up = False
        self._is_feeding = False
        self._is_telling = False
        self._is_wake_due = False
        self._events: deque[ev.Event] = deque()
        self._outbox: deque[tuple[PendingBatch, ErrorCode]] = deque()
        self._retry: asyncio.TimerHandle | None = None
        self.started: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        limits = limits_of(config, surroundings)
        self._state, self._first_effects = start(leader_epoch, limits, floor)
        self._offline = Offline(leader_epoch, limits)

    def begin(self) -> None:
        """Start. `started` resolves when it owns the partition, or fails with the reason."""
        self._started_s = self._loop.time()
        effects, self._first_effects = self._first_effects, ()
        try:
            self._perform(effects)
        except Exception as error:
            self._fail(error)

    # --- its state

    def inspect(self) -> RuntimeParts:
        return RuntimeParts(self._paths, self._start, self._lifecycle, self._tail, self._min_insync, self._files)

    @property
    def state(self) -> State:
        return self._state

    @property
    def state_name(self) -> str:
        """For people and metrics: the machine's state in lower case, `awaiting_segment`."""
        return re.sub(r"\B(?=[A-Z])", "_", type(self._state).__name__).lower()

    def offline_error(self) -> PartitionOffline:
        """The error for callers while the partition is offline."""
        return PartitionOffline(self._offline_reason, self._offline_damage)

    @property
    def is_owning(self) -> bool:
        return isinstance(self._state, Owning)

    @property
    def leader_epoch(self) -> int:
        return self._epoch

    @property
    def high_watermark(self) -> int:
        return 0 if self._log is None else self._log.high_watermark

    @property
    def log_end_offset(self) -> int:
        return 0 if self._log is None else self._log.log_end_offset

    @property
    def last_stable_offset(self) -> int:
        high_watermark = self.high_watermark
        stable_offset = self._producers.last_stable_offset(high_watermark)
        # Retention may have deleted the beginning of an open transaction.
        return stable_offset if stable_offset == high_watermark else max(stable_offset, self.log_start_offset)

    def on_advance(self, wake: Callable[[], None]) -> Callable[[], None]:
        """As PartitionLog.on_advance; once the runtime has ended, `wake` is called soon, because nothing will move."""
        if self._state.is_final:
            self._loop.call_soon(self._waiters.wake_all)
        return self._waiters.add(wake)

    # --- the write path

    def append(
        self,
        records: memoryview,
        done: AppendDone,
        *,
        is_internal: bool = False,
        is_acks_all: bool = True,
        claim: TransactionClaim | None = None,
    ) -> None:
        """As PartitionLog.append."""
        state = self._state
        if self._files is None or state.is_final or state.is_leaving:
            # Also while handing over, and before checking sequences: if the first of two batches is refused because the
            # partition moves, the second must not be refused as out of order.
            call(done, AppendResult(self._closed_code()))
        elif self._queue.appends:
            if not self._queue.add(Append(records, done, is_internal, is_acks_all, claim)):
                self._note_refused(records, ErrorCode.REQUEST_TIMED_OUT)
                self._refuse_for_want_of_room(done)
        else:
            self._append(records, done, is_internal, is_acks_all, claim)

    def _append(
        self,
        records: memoryview,
        done: AppendDone,
        is_internal: bool,
        is_acks_all: bool,
        claim: TransactionClaim | None,
    ) -> None:
        """As append, for the next append of this partition."""
        try:
            if self._is_guarded and is_acks_all and self._has_too_few_replicas(records):
                self._refuse_for_want_of_replicas(records, done)
                return
            if is_internal:
                self._append_internal(self._pending_internal(records, done), len(records), done)
                return
            now_ms = self._surroundings.clock.now_ms()
            view, header = self._admission.admit(records, now_ms, self._surroundings.turn_room)
        except TooMuchWork:
            append = Append(records, done, is_internal, is_acks_all, claim)
            if not self._queue.open(append, self._surroundings.opener, self._admission, now_ms):
                self._note_refused(records, ErrorCode.REQUEST_TIMED_OUT)
                self._refuse_for_want_of_room(done)
        except Exception as error:
            self._refuse_for(error, records, done)
        else:
            self._place(records, view, header, now_ms, done, is_acks_all, claim)

    def _take_up(self, append: Append, opened: Opened | None, now_ms: int) -> None:
        """Go on with an append that has waited in the queue."""
        records, done = append.records, append.done
        closed = self._closed_code()
        if closed is not ErrorCode.NONE:
            call(done, AppendResult(closed))
        elif opened is None:
            self._append(*append)
        elif isinstance(opened, Exception):
            self._refuse_for(opened, records, done)
        elif self._is_guarded and append.is_acks_all and self._has_too_few_replicas(records):
            self._refuse_for_want_of_replicas(records, done)
        else:
            self._place(records, *opened, now_ms, done, append.is_acks_all, append.claim)

    def _place(
        self,
        records: memoryview,
        view: memoryview,
        header: BatchHeader,
        now_ms: int,
        done: AppendDone,
        is_acks_all: bool,
        claim: TransactionClaim | None,
    ) -> None:
        """Give an admitted batch its offset, unless its producer, its transaction or a limit says otherwise."""
        try:
            append_time_ms = now_ms if self.config.message_timestamp_type_is_append_time else -1
            batch = PendingBatch(view, header, done, append_time_ms, is_acks_all)
            if header.producer_id >= 0:
                if header.attributes & TRANSACTIONAL and self._is_held(batch, claim):
                    return
                repeated = self._producers.check(header)
                if repeated is not None:
                    self._answer_repeated(header, repeated, done, is_acks_all)
                    return
                if self._refused.entries and self._is_behind_a_refused_one(records):
                    self._refuse(BEHIND_A_REFUSED_ONE, done)
                    return
                too_many = self._producer_limit.refusal_of(self._producers, header.producer_id, now_ms)
                if too_many is not None:
                    self._refuse_new_producer(too_many, records, done)
                    return
            if self.backlog.refusal is not None:
                self._refuse_over_quota(self.backlog.refusal, records, done)
                return
        except Exception as error:
            self._refuse_for(error, records, done)
            return
        if not self._surroundings.budget.take(batch.size_bytes):
            self._note_refused(records, ErrorCode.REQUEST_TIMED_OUT)
            self._refuse_for_want_of_room(done)
            return
        self._turns.took(batch.size_bytes)
        self._feed(ev.ProduceArrived(batch))
        if header.producer_id >= 0 and batch.base_offset >= 0:
            try:
                self._producers.place(header, batch.base_offset, now_ms)
            except Exception as error:  # in the log but not in the producer state: a retry would be written twice
                self._fail(error)

    def _closed_code(self) -> ErrorCode:
        state = self._state
        if isinstance(state, Offline):
            return ErrorCode.KAFKA_STORAGE_ERROR
        is_open = self._files is not None and not state.is_final and not state.is_leaving
        return ErrorCode.NONE if is_open else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _pending_internal(self, records: memoryview, done: AppendDone) -> list[PendingBatch]:
        """The checked batches of one internal append; only the last one answers it. Raises BmqError."""
        admitted = self._admission.admit_internal(records)
        for view, header in admitted:
            if header.producer_id >= 0:
                marker = parse_end_transaction_marker(view) if header.is_control else None
                if marker is not None:
                    self._producers.check_marker(header, marker)
                elif not header.is_control:
                    self._producers.check(header, is_client=False)
        batches = [PendingBatch(view, header, None, -1, True) for view, header in admitted]
        batches[-1].done = done
        if len(batches) > 1:  # a batch that refers to itself keeps its callers' objects until the collector comes
            batches[-1].first = batches[0]
        return batches

    def _append_internal(self, batches: list[PendingBatch], size_bytes: int, done: AppendDone) -> None:
        if not self._surroundings.budget.take(size_bytes):
            self._refuse_for_want_of_room(done)
            return
        for batch in batches:
            self._feed(ev.ProduceArrived(batch))
            if batch.header.producer_id >= 0 and batch.base_offset >= 0:
                try:
                    self._place_internal(batch.header, batch)
                except Exception as error:
                    self._fail(error)

    def _place_internal(self, header: BatchHeader, batch: PendingBatch) -> None:
        marker = parse_end_transaction_marker(batch.view) if header.is_control else None
        now_ms = self._surroundings.clock.now_ms()
        if marker is not None:
            self._guards.drop(header.producer_id)
            self._producers.place_marker(header, batch.base_offset, marker, now_ms)
        elif not header.is_control:
            self._producers.place(header, batch.base_offset, now_ms)

    def _write(self, effect: ev.WriteBatches) -> None:
        batches = cast("tuple[PendingBatch, ...]", effect.batches)
        segment = self._lifecycle.segments[effect.segment.roll]
        now_s = self._loop.time()
        if segment.index is None:
            segment.first_append_s = now_s
            files = self._files
            assert files is not None
            first = batches[0].base_offset
            before = None if self._current is None else self._current.index
            segment.index = IndexBuilder(
                self._epoch,
                segment.roll,
                segment.file_id,
                first,
                interval_bytes=files.index_interval_bytes,
                roll_base_ms=None if before is None else roll_base_after(before, self.config),
            )
            files.begin_segment(segment.index)
        self._current = segment
        segment.last_append_s = now_s
        answer = segment.writer.append(segment.place(batches))
        self._turns.outstanding += 1
        written = partial(self._written, segment.roll, batches[-1].end_offset, now_s)
        if answer.done():
            written(answer)
        else:
            answer.add_done_callback(written)

    def _write_due(self) -> None:
        self._feed(ev.WriteDue(self._turns.outstanding))

    def _written(self, roll: int, end_offset: int, began_s: float, answer: Appended) -> None:
        self._turns.outstanding -= 1
        try:
            self._report_written(roll, end_offset, began_s, answer)
        except Exception as error:
            self._fail(error)

    def _report_written(self, roll: int, end_offset: int, began_s: float, answer: Appended) -> None:
        error = None if answer.cancelled() else answer.exception()
        if error is None and not answer.cancelled():
            counts = self._surroundings.counts
            counts.appends += 1
            counts.store_latency.observe(self._loop.time() - began_s)
            self._feed(ev.SegmentSynced(roll, end_offset, self._turns.outstanding))
        elif isinstance(error, FencedWriter):
            self._feed(ev.OwnershipLost())
        else:
            self._feed(ev.WriterBroken(roll, isinstance(error, StorageFull)))

    def _acknowledge(self, effect: ev.Acknowledge) -> None:
        batches = cast("tuple[PendingBatch, ...]", effect.batches)
        if not batches:
            return
        segment = self._current
        assert segment is not None and segment.index is not None
        add, keep, tell = segment.index.add, self._tail.append, self._outbox.append
        if effect.is_short:
            tell = self._tell_of_shortage
            self._min_insync.assured_offset = effect.high_watermark
        size_bytes = 0
        for batch in batches:
            base_offset = batch.base_offset
            add(batch.header, base_offset, batch.position)
            keep(base_offset, base_offset + batch.offset_count, batch.view, batch.position)
            size_bytes += batch.size_bytes
            tell((batch, ErrorCode.NONE))
        self._producers.synced(effect.high_watermark)
        counts = self._surroundings.counts
        counts.appended_batches += len(batches)
        counts.appended_bytes += size_bytes
        self.load.bytes_in += size_bytes
        self.load.requests += len(batches)
        if self._open_backoff.failures:
            self._open_backoff.reset()
        self._is_wake_due = True
        if self._log is not None:
            self._log.taken = ()  # all of them are in the outbox
        if segment.index.entry_count >= INDEX_ENTRIES_MAX:
            self._feed(ev.RollDue(segment.roll))

    def _tell_of_shortage(self, entry: tuple[PendingBatch, ErrorCode]) -> None:
        batch, code = entry
        if batch.is_acks_all:
            code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self._min_insync.note_unconfirmed(batch.header, batch.base_offset, self._loop.time())
            self._is_guarded = True
        self._outbox.append((batch, code))

    def _reject(self, effect: ev.Reject) -> None:
        if effect.error_code is ErrorCode.NOT_ENOUGH_REPLICAS:
            self._min_insync.has_refused = True
        batches = cast("tuple[PendingBatch, ...]", effect.batches)
        for batch in batches:
            self._surroundings.counts.refused_batches += 1
            self._outbox.append((batch, effect.error_code))
        if isinstance(self._state, Owning):
            self._producers.rollback(self._state.log.log_end_offset)
            for batch in batches:
                self._note_refused(batch.view, effect.error_code)
        if self._log is not None:
            self._log.taken = ()

    # --- the machine

    def _feed(self, event: ev.Event) -> None:
        """Step, perform the effects, then run the callbacks. Events that come up meanwhile are queued."""
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
        if self._outbox or self._is_wake_due:
            self._tell()

    def _take(self, event: ev.Event) -> None:
        before = self._state
        self.upkeep_due_s = 0.0
        effects: tuple[ev.Effect, ...] = ()
        try:
            after, effects = step(before, event)
            if after is not before:
                self._state = after
                is_short = isinstance(after, Writing) and after.is_short
                self._is_guarded = is_short or bool(self._min_insync.unconfirmed)
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
        state = self._state
        if not state.is_final:
            self._state = self._offline  # first of all, and it takes no memory: from here on nothing is acknowledged
        unanswered: dict[ev.Batch, None] = dict.fromkeys(batch for batch, _ in self._outbox)
        if self._log is not None:
            unanswered.update(dict.fromkeys(self._log.taken))
        if state.is_final:
            _log.error("partition_end_failed", **self._names(), exc_info=error)
        else:
            _, more = offline(state)
            effects = (*effects, *more)
            self._report_offline(error)
        if self._log is not None:
            self._log.taken = ()
        for effect in effects:
            if isinstance(effect, ev.WriteBatches | ev.Acknowledge | ev.Reject):
                unanswered.update(dict.fromkeys(effect.batches))
        if isinstance(event, ev.ProduceArrived):
            unanswered[event.batch] = None
        self._outbox.clear()
        self._outbox.extend((cast(PendingBatch, batch), ErrorCode.NOT_LEADER_OR_FOLLOWER) for batch in unanswered)
        self._surroundings.counts.refused_batches += len(unanswered)
        self._abandon(ev.Abandon())

    def _perform(self, effects: tuple[ev.Effect, ...]) -> None:
        for effect in effects:
            _PERFORMERS[type(effect)](self, effect)

    def _changed(self, before: State, after: State) -> None:
        if isinstance(after, Owning) and not isinstance(before, Owning):
            self._log = after.log
            self._min_insync.assured_offset = after.log.high_watermark
            self._surroundings.counts.starts += 1
            self._is_wake_due = True
            if not self.started.done():
                self.started.set_result(None)
            self._on_change(self)
            self._report_started()
            if self._may_be_compacted:
                self._spawn(self.remove_unnamed())

    def _tell(self) -> None:
        if self._is_telling:
            return
        self._is_telling = True
        outbox = self._outbox
        freed_bytes = 0
        try:
            while outbox or self._is_wake_due:
                log_start_offset = self.log_start_offset
                while outbox:
                    batch, error_code = outbox.popleft()
                    freed_bytes += batch.size_bytes
                    if batch.done is None:
                        continue
                    if error_code is ErrorCode.NONE or error_code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                        first = batch.first or batch
                        result = AppendResult(error_code, first.base_offset, batch.append_time_ms, log_start_offset)
                    else:
                        result = AppendResult(error_code)
                    batch.tell(result)
                if self._is_wake_due:
                    self._is_wake_due = False
                    self._waiters.wake_all()
                if freed_bytes:
                    freed, freed_bytes = freed_bytes, 0
                    self._surroundings.budget.give_back(freed)
        finally:
            self._is_telling = False
            if freed_bytes:
                self._surroundings.budget.give_back(freed_bytes)

    # --- effects that run as tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
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
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """An error that no retry helps against: go offline, loudly. Does nothing once the state is final."""
        if not self._state.is_final:
            self._report_offline(error)
            self._feed(ev.EffectFailed())

    async def _persist(self, action: Callable[[], Awaitable[ev.Event | None]]) -> None:
        """Perform an effect of the start, retrying with growing pauses until it ends in an event or we are fenced."""
        backoff = self._surroundings.backoff()
        while not self._state.is_final:
            try:
                event: ev.Event | None = await action()
            except FencedWriter:
                event = ev.OwnershipLost()
            except CorruptFile:
                raise
            except StoreError as error:
                # Retry unknown store errors too: a partition that keeps trying can still recover.
                if backoff.failures == 0:
                    _log.warning("partition_start_waits", **self._names(), reason=f"{type(error).__name__}: {error}")
                await backoff.pause()
                if await self._is_directory_lost():
                    self._feed(ev.OwnershipLost())
                continue
            if event is not None:
                self._feed(event)
            return

    async def _is_directory_lost(self) -> bool:
        if self._directory.file_id is None:
            return False  # not claimed yet
        try:
            await self._lifecycle.look()
        except FencedWriter:
            return True
        except StoreError:
            return False
        return False

    async def _walk(self) -> ev.Event:
        """If a newer owner exists, missing files mean we are fenced, not damaged: raises FencedWriter then."""
        try:
            event = await self._start.walk()
        except CorruptFile:
            await self._lifecycle.look()
            raise
        if event.end_offset < self._floor:
            await self._lifecycle.look()
        files = self._start.files
        assert files is not None
        self._lifecycle.files = files
        self._producers = files.producers
        return event

    async def _record(self) -> ev.Event:
        event = await self._start.record()
        self._files = self._lifecycle.files
        recovered = self._start.recovered
        if recovered is not None and recovered.unnamed_directories:
            self._remove_later(recovered.unnamed_directories)
        self._remove_later(self._start.orphans)
        return event

    def _open_segment(self, effect: ev.OpenSegment) -> None:
        if isinstance(self._state, Recovering | Opening):
            self._spawn(self._persist(self._lifecycle.open_first))
        else:
            self._spawn(self._lifecycle.open_or_report(effect.roll))

    def _mend(self, effect: ev.MendSegment) -> None:
        state = self._state
        assert isinstance(state, Mending)
        written = cast("deque[PendingBatch]", state.log.written)
        self._spawn(self._lifecycle.mend(effect.segment, written, is_full=state.is_full))

    def _seal(self, effect: ev.SealSegment) -> None:
        self._lifecycle.end(effect.segment.roll)
        self._spawn(self._lifecycle.seal(effect.segment, effect.end_offset))

    def _discard(self, effect: ev.DiscardSegment) -> None:
        self._lifecycle.end(effect.roll)
        self._lifecycle.throw_away(effect.roll)

    def _retry_later(self, _: ev.RetryLater) -> None:
        if self._open_backoff.failures == 0:
            _log.warning("partition_blocked", **self._names(), reason="the store takes nothing now; trying again")
        self._retry = self._loop.call_later(self._open_backoff.next_s(), self._feed, ev.RetryDue())

    def _abandon(self, _: ev.Abandon) -> None:
        """The machine has ended. Never raises: if one step fails, the others still release and answer everything."""
        self._current = None
        self._is_wake_due = True
        if self._retry is not None:
            self._retry.cancel()
        self._attempt(self._refuse_held)
        self._attempt(self._abandon_writers)
        self._attempt(self._tail.clear)
        self._attempt(lambda: self._surroundings.indexes.drop_partition(self._paths.partition))
        if isinstance(self._state, Fenced) and not self._is_given_up:
            self._surroundings.counts.fenced += 1
            _log.warning("partition_fenced", **self._names(), high_watermark=self.high_watermark)
        if not self.started.done():
            error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the partition is {self.state_name}")
            if isinstance(self._state, Offline):
                error = self.offline_error()
            self.started.set_exception(error)
            self.started.exception()  # waiting callers still get it; without any, asyncio would log a warning
        if not self.ended.done():
            self.ended.set_result(None)
        self._attempt(lambda: self._on_change(self))

    def _refuse_held(self) -> None:
        """Refuse batches that wait for their coordinator's verdict, or to be opened: the next owner will do it."""
        for batch, _ in self._guards.end_all():
            self._surroundings.counts.refused_batches += 1
            self._outbox.append((batch, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        self._surroundings.counts.refused_batches += self._queue.refuse_all(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:
            _log.exception("partition_end_failed", **self._names())

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
        self._feed(ev.StopRequested())

    def give_up(self) -> None:
        """The topic is deleted or somebody else owns the partition: refuse batches on their way and let go."""
        self._is_given_up = True
        self._feed(ev.OwnershipLost())

    def update_config(self, config: LogConfig) -> None:
        """Raises only before anything has changed."""
        self._admission = self._admission_by(config)
        self.config = config
        self._lifecycle.config = config
        self.backlog.ask_again()
        if not config.has_backlog_quota:
            lift_refusal(self)
        self._feed(ev.LimitsChanged(limits_of(config, self._surroundings)))

    def _admission_by(self, config: LogConfig) -> Admission:
        return Admission(config, f"{self.topic_name}-{self.topic_partition.partition}")

    def upkeep(self, now_s: float, now_ms: int) -> None:
        """Called every second or so: roll by age, close a segment that nobody writes to, look for lost replicas.

        It need not be before `upkeep_due_s`, which an event sets back: most of many partitions have nothing to do.
        """
        state = self._state
        self.delegation.expire(now_ms)
        if self._min_insync.unconfirmed:
            self._min_insync.forget_expired(now_s)
        if type(state) is not Writing:
            if isinstance(state, (AwaitingSegment, Mending)):
                self._limit_wait(state.log, now_s)
            elif not self._min_insync.unconfirmed:
                self.upkeep_due_s = now_s + UPKEEP_REST_S_MAX
            return
        self._is_guarded = state.is_short or bool(self._min_insync.unconfirmed)
        segment = self._lifecycle.segments.get(state.segment.roll)
        if segment is None:
            return
        if self._min_insync.is_search_due(state, segment, now_s):
            self._feed(ev.ReplicasDue(segment.roll))
            return
        index, config = segment.index, self.config
        if segment.durability is not config.durability:
            # From now on acknowledged batches need the topic's new durability. The next segment may have the old one,
            # too.
            has_bytes = index is not None and index.valid_bytes
            self._feed(ev.RollDue(segment.roll) if has_bytes else ev.IdleDue(segment.roll))
            return
        roll_ms = self._roll_due_ms(segment)
        idle_due_s = segment.last_append_s + config.segment_idle_close_ms / 1000
        if roll_ms is not None and now_ms >= roll_ms:
            self._feed(ev.RollDue(segment.roll))
        elif now_s >= idle_due_s:
            self._feed(ev.IdleDue(segment.roll))
        elif not self._is_guarded and state.replicas >= state.limits.replicas_wanted:
            roll_due_s = UPKEEP_REST_S_MAX if roll_ms is None else (roll_ms - now_ms) / 1000
            self.upkeep_due_s = min(idle_due_s, now_s + min(roll_due_s, UPKEEP_REST_S_MAX))

    def _roll_due_ms(self, segment: OwnSegment) -> int | None:
        index = segment.index
        if index is None:
            return None
        base_ms = index.roll_base_ms
        return roll_due_ms(
            self.config,
            opened_ms=segment.opened_ms,
            base_timestamp_ms=-1 if base_ms is None else base_ms,
            max_timestamp_ms=index.max_timestamp_ms,
            valid_bytes=index.valid_bytes,
            check_interval_ms=self._surroundings.settings.retention_check_interval_ms,
        )

    def _limit_wait(self, log: InFlightBatches, now_s: float) -> None:
        oldest, since_s = self._oldest_waiting
        if not log.waiting or oldest is not log.waiting[0]:
            self._oldest_waiting = (log.waiting[0] if log.waiting else None, now_s)
        elif now_s - since_s >= self._surroundings.settings.storage_wait_max_s:
            self._oldest_waiting = (None, 0.0)
            self._feed(ev.WaitExpired())

    # --- what an operator reads

    def _names(self) -> dict[str, Any]:
        return {
            "topic": self.topic_name,
            "partition": self.topic_partition.partition,
            "leader_epoch": self._epoch,
        }

    def _report_started(self) -> None:
        recovered = self._start.recovered
        assert recovered is not None
        was_clean = not recovered.scanned_bytes and not self._start.open_files
        (_log.debug if was_clean else _log.info)(
            "partition_started",
            **self._names(),
            end_offset=recovered.end_offset,
            scanned_bytes=recovered.scanned_bytes,
            files_closed=len(self._start.open_files),
            seconds=round(self._loop.time() - self._started_s, 4),
        )

    def _report_offline(self, error: BaseException) -> None:
        self._surroundings.counts.offline += 1
        self._offline_reason = str(error) if isinstance(error, BmqError) else f"{type(error).__name__}: {error}"
        self._offline_damage = error.damage if isinstance(error, StateDamaged) else None
        _log.error("partition_offline", **self._names(), reason=f"{type(error).__name__}: {error}", exc_info=error)

    def _open_segment_now(self) -> OwnSegment | None:
        """The segment whose writer is in use; None while there is none."""
        state = self._state
        if isinstance(state, Writing | Draining):
            return self._lifecycle.segments.get(state.segment.roll)
        return None


_PERFORMERS: Final[dict[type[ev.Effect], Callable[[PartitionRuntime, Any], object]]] = {
    ev.ClaimDirectory: lambda self, _: self._spawn(self._persist(self._start.claim)),
    ev.SealDirectories: lambda self, effect: self._spawn(self._persist(partial(self._start.seal, effect))),
    ev.CloseFile: lambda self, effect: self._spawn(self._persist(partial(self._start.close, effect))),
    ev.WalkLog: lambda self, _: self._spawn(self._persist(self._walk)),
    ev.WriteManifest: lambda self, _: self._spawn(self._persist(self._record)),
    ev.OpenSegment: PartitionRuntime._open_segment,
    ev.ScheduleWrite: lambda self, _: self._turns.schedule(self._write_due),
    ev.WriteBatches: PartitionRuntime._write,
    ev.Acknowledge: PartitionRuntime._acknowledge,
    ev.Reject: PartitionRuntime._reject,
    ev.SaveRecoveredIndexes: lambda self, _: self._spawn(self._lifecycle.save_recovered()),
    ev.MendSegment: PartitionRuntime._mend,
    ev.SealSegment: PartitionRuntime._seal,
    ev.DiscardSegment: PartitionRuntime._discard,
    ev.RetryLater: PartitionRuntime._retry_later,
    ev.SealOwnDirectory: lambda self, _: self._spawn(self._lifecycle.release()),
    ev.Abandon: PartitionRuntime._abandon,
}
