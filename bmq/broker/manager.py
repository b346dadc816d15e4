"""All partitions this process may own: idle until needed, started once for all waiting callers, stopped in order.

A partition that was only assigned costs one small object. `ready` is the hot path: one dict lookup. One timer serves
the upkeep of all partitions, another their retention.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from random import Random
from typing import Final

import structlog

from bmq.broker.compaction.scheduler import CompactionScheduler
from bmq.broker.context import USUAL_RETRY, BrokerContext, BrokerSettings, CompactionPace, VerificationRetry
from bmq.broker.group_backlog import GroupBacklogs
from bmq.broker.half_checker import HalfChecker
from bmq.broker.idle_starts import SHARE_SOON, IdleStarts
from bmq.broker.metrics import BrokerCollector
from bmq.broker.partition_states import Fenced, Offline
from bmq.broker.runtime import PartitionRuntime
from bmq.log.clock import Clock
from bmq.log.committed_offsets import CommittedOffsets
from bmq.log.compaction import LogCleaning
from bmq.log.config import LogConfig
from bmq.log.names import EpochListing, partition_directory
from bmq.log.partition_log import PartitionStarting, TopicPartition
from bmq.log.root import ROOT_FILE
from bmq.log.store import SegmentStore, StoreError
from bmq.log.timers.retry_letters import RetryLetters
from bmq.log.transactions import TransactionVerifier
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.tracing.traces import Appends

LISTINGS_MAX: Final = 8
UPKEEP_PER_TURN_MAX: Final = 500
"""Partitions looked after in one turn of the loop: a millisecond or two."""
DELAY_STARTS_PER_TURN_MAX: Final = 64
"""Partitions of topics with delay that are made to start in one turn; they then wait for their start's turn."""

_log = structlog.get_logger("bmq.broker")


class _Assignment:
    """One assigned partition; `runtime` is created when it is first needed."""

    __slots__ = ("config", "floor", "is_handed_over", "leader_epoch", "runtime", "topic_name", "topic_partition")

    def __init__(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        topic_name: str,
        config: LogConfig,
        floor: int,
        *,
        is_handed_over: bool,
    ) -> None:
        self.topic_partition = topic_partition
        self.leader_epoch = leader_epoch
        self.topic_name = topic_name
        self.config = config
        self.floor = floor
        self.is_handed_over = is_handed_over
        self.runtime: PartitionRuntime | None = None


def _nobody_listens() -> None:
    pass


def _report_failure(event: str, runtime: PartitionRuntime, error: Exception) -> None:
    """Log a bug in a round over all partitions. No acknowledgement depends on that work, so the round goes on."""
    _log.error(event, partition=partition_directory(runtime.topic_partition), reason=repr(error), exc_info=error)


class PartitionManager:
    """Implements bmq.proxy.partitions.Partitions. All calls come from one event loop, which runs when it is made.

    `holder` names this process incarnation in the store: never the same for two of them. `may_pad`: see BrokerContext.
    """

    def __init__(
        self,
        store: SegmentStore,
        holder: str,
        clock: Clock,
        random: Random,
        settings: BrokerSettings | None = None,
        *,
        may_pad: bool = True,
    ) -> None:
        self.settings = settings or BrokerSettings()
        self.context = BrokerContext(store, holder, clock, random, self.settings, may_pad)
        self.budget = self.context.budget
        self.tail_cache = self.context.tail_cache
        self.counts = self.context.counts
        self.collector = BrokerCollector(
            self.counts, self.tail_cache, self.budget, self.states, self._under_replicated, self._delayed, clock
        )
        self._assignments: dict[TopicPartition, _Assignment] = {}
        self._expected: dict[TopicPartition, tuple[int, asyncio.Future[None]]] = {}
        self._ready: dict[TopicPartition, PartitionRuntime] = {}
        self._started: dict[PartitionRuntime, None] = {}  # every runtime that has not ended
        self._unserved: dict[PartitionRuntime, None] = {}
        self._with_delay: dict[TopicPartition, None] = {}  # assigned, of topics with delay
        self._loop = asyncio.get_running_loop()
        self._starts = self.context.starts
        self._starting: dict[asyncio.Task[None], None] = {}
        self._backlogs = GroupBacklogs(clock)
        self._retention: asyncio.Task[None] | None = None
        self._idle_starts = IdleStarts(store, partial(self.leader_of, is_awaited=False))
        self._idle_round: asyncio.Task[int] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._upkeep_timer = self._loop.call_later(self.settings.upkeep_interval_s, self._upkeep)
        self._retention_timer = self._loop.call_later(
            self.settings.retention_check_interval_ms / 1000, self._begin_retention
        )
        self._compaction_scheduler: CompactionScheduler | None = None
        self._is_closed = False
        self._on_owned: Callable[[], None] = _nobody_listens

    # --- assignments

    def on_owned(self, tell: Callable[[], None]) -> None:
        """Call `tell` whenever this process has begun to own a partition."""
        self._on_owned = tell

    def use_transactions(self, verifier: TransactionVerifier, retry: VerificationRetry = USUAL_RETRY) -> None:
        """Accept transactional batches from now on, and verify their transactions with `verifier`."""
        self.context.transactions = verifier
        self.context.verification_retry = retry

    def use_retry_letters(self, letters: RetryLetters) -> None:
        """Take the last attempts of retry topics' records from now on."""
        self.context.retry_letters = letters

    def use_traces(self, appends: Appends) -> None:
        """Note the writes of traced appends from now on."""
        self.context.traced_appends = appends

    def use_half_checker(self, checker: HalfChecker) -> None:
        """Have undecided half messages checked from now on."""
        self.context.half_checker = checker

    def use_cleaning(self, cleaning: LogCleaning) -> None:
        """Compact logs from now on."""
        assert self._compaction_scheduler is None
        self._compaction_scheduler = CompactionScheduler(
            self.context, cleaning, lambda: (runtime.compaction for runtime in self._started)
        )

    @property
    def problems(self) -> tuple[str, ...]:
        """What an operator has to look at, a sentence each."""
        problem = None if self._compaction_scheduler is None else self._compaction_scheduler.problem
        return () if problem is None else (problem,)

    def pace_compaction(self, pace: CompactionPace) -> None:
        """From the next look, the next compaction and the next append on."""
        self.context.compaction = pace
        if self._compaction_scheduler is not None:
            self._compaction_scheduler.pace_changed()

    def expire_producer_ids_after(self, idle_ms: int) -> None:
        """Producers that are silent for so long are forgotten, from the next check of retention on."""
        self.context.producer_id_expiration_ms = idle_ms

    def use_committed_offsets(self, offsets: CommittedOffsets) -> None:
        """From now on obey topics' bmq.retention.groups and backlog quotas; before, no group's offsets are known."""
        self._backlogs.offsets = offsets

    def expect(self, topic_partition: TopicPartition, leader_epoch: int) -> None:
        """Announce an assignment at this epoch; until it comes, `leader_of` waits, at most `start_wait_max_s`.

        Called while the present owner still releases the partition; `assign` or `expect_no_more` must follow.
        """
        self.expect_no_more(topic_partition)
        self._expected[topic_partition] = leader_epoch, self._loop.create_future()

    def expect_no_more(self, topic_partition: TopicPartition, leader_epoch: int | None = None) -> None:
        """Withdraw `expect` and wake its waiters. With `leader_epoch`: only if that epoch is still the expected one."""
        expected = self._expected.get(topic_partition)
        if expected is not None and leader_epoch in (None, expected[0]):
            del self._expected[topic_partition]
            expected[1].set_result(None)

    def assign(
        self,
        topic_partition: TopicPartition,
        leader_epoch: int,
        topic_name: str,
        config: LogConfig,
        high_watermark_floor: int = 0,
        *,
        is_handed_over: bool = False,
    ) -> None:
        """Make the partition known at this epoch, idle. A runtime at an older epoch is given up at once.

        Ignored unless the epoch is newer than the known one. `high_watermark_floor`: acknowledged up to here (rule 5).
        `is_handed_over`: its last owner has released it, so a start waits for no turn (StartQueue.slot).
        """
        known = self._assignments.get(topic_partition)
        runtime = None if known is None else known.runtime
        if known is not None and known.leader_epoch >= leader_epoch:
            return
        if runtime is not None and not isinstance(
            runtime.state, Offline
        ):  # else an operator may have accepted the loss
            high_watermark_floor = max(high_watermark_floor, runtime.high_watermark)
        # Replace it before the older runtime ends, so that one no longer counts as assigned and is not reported as
        # fenced.
        self._assignments[topic_partition] = _Assignment(
            topic_partition,
            leader_epoch,
            topic_name,
            config,
            high_watermark_floor,
            is_handed_over=is_handed_over,
        )
        if config.holds_records or self._with_delay:
            self._note_delay(topic_partition, config)
        if runtime is not None:
            self._stop_serving(runtime)
            runtime.give_up()
        self.expect_no_more(topic_partition)
        self._start_idle_soon()

    async def unassign(
        self, topic_partition: TopicPartition, leader_epoch: int | None = None, *, is_sealed: bool = True
    ) -> None:
        """Hand the partition over in order: drain, seal, save the checkpoint, release (rule 8). Returns when done.

        Ignored when it is now assigned at another epoch than `leader_epoch`; None: any epoch. `is_sealed`: whether to
        seal; without, it is let go at once, and the next owner recovers it.
        """
        assignment = self._assignments.get(topic_partition)
        if assignment is None or leader_epoch not in (None, assignment.leader_epoch):
            return
        del self._assignments[topic_partition]
        self._with_delay.pop(topic_partition, None)
        if assignment.runtime is None:
            return
        runtime = assignment.runtime
        # Nobody may find the draining runtime: the partition may be assigned here again before it has ended.
        self._stop_serving(runtime)
        if is_sealed:
            runtime.stop()
            await asyncio.wait({runtime.ended}, timeout=self.settings.stop_wait_max_s)
        runtime.give_up()

    def drop(self, topic_partition: TopicPartition) -> None:
        """The topic is deleted: close and let go. The controller deletes its files."""
        assignment = self._assignments.pop(topic_partition, None)
        self._with_delay.pop(topic_partition, None)
        if assignment is not None and assignment.runtime is not None:
            self._stop_serving(assignment.runtime)
            assignment.runtime.give_up()

    def _note_delay(self, topic_partition: TopicPartition, config: LogConfig) -> None:
        if config.holds_records:
            self._with_delay[topic_partition] = None
        else:
            self._with_delay.pop(topic_partition, None)

    def _start_with_delay(self) -> None:
        """Delayed records are delivered by their partition's owner only, and no client may ask for it."""
        assignments = (self._assignments[key] for key in self._with_delay if key not in self._expected)
        idle = (assignment for assignment in assignments if assignment.runtime is None)
        for assignment in tuple(islice(idle, DELAY_STARTS_PER_TURN_MAX)):
            self._start(assignment, is_awaited=False)

    def _stop_serving(self, runtime: PartitionRuntime) -> None:
        self._unserved.pop(runtime, None)
        if self._ready.get(runtime.topic_partition) is runtime:
            del self._ready[runtime.topic_partition]

    def update_config(self, topic_partition: TopicPartition, config: LogConfig) -> None:
        """The topic's settings changed."""
        assignment = self._assignments.get(topic_partition)
        if assignment is None:
            return
        assignment.config = config
        self._note_delay(topic_partition, config)
        if assignment.runtime is not None:
            try:
                assignment.runtime.update_config(config)
            except Exception as error:  # noqa: BLE001 it keeps its old settings
                _report_failure("partition_config_not_taken", assignment.runtime, error)

    def leader_epoch(self, topic_partition: TopicPartition) -> int | None:
        """The epoch it is assigned at here; None: not assigned."""
        assignment = self._assignments.get(topic_partition)
        return None if assignment is None else assignment.leader_epoch

    def high_watermark_floor(self, topic_partition: TopicPartition) -> int | None:
        """The high watermark floor it was assigned with (rule 5); None: it is not assigned here."""
        assignment = self._assignments.get(topic_partition)
        return None if assignment is None else assignment.floor

    def runtime(self, topic_partition: TopicPartition) -> PartitionRuntime | None:
        """The partition's runtime, also while it starts; None before that, or when it is not assigned here."""
        assignment = self._assignments.get(topic_partition)
        return None if assignment is None else assignment.runtime

    def runtimes(self) -> Iterable[PartitionRuntime]:
        """The runtimes of all assigned partitions that were ever started, in whatever state."""
        return tuple(one.runtime for one in self._assignments.values() if one.runtime is not None)

    def owned(self) -> Iterable[PartitionRuntime]:
        """The partitions that are owned here and started."""
        return self._ready.values()

    def unwritten(self) -> Iterable[TopicPartition]:
        """The partitions that are assigned here, and of which nobody has written a file."""
        return (key for key, epoch in self._idle().items() if self._idle_starts.is_empty(key, epoch))

    def high_watermarks(self) -> Mapping[TopicPartition, int]:
        """High watermarks of partitions owned here; heartbeats report them to the controller (rule 5)."""
        return {key: runtime.high_watermark for key, runtime in self._ready.items()}

    # --- the way to a partition

    def ready(self, topic_partition: TopicPartition) -> PartitionRuntime | None:
        """The log, if it is owned here and started."""
        return self._ready.get(topic_partition)

    async def leader_of(self, topic_partition: TopicPartition, *, is_awaited: bool = True) -> PartitionRuntime:
        """The log, started if it was idle; concurrent callers share one start. Waits for an expected partition.

        `is_awaited`: a client waits for it, so its start passes those for which none does.

        Raises KafkaError NOT_LEADER_OR_FOLLOWER (not assigned here, fenced), KAFKA_STORAGE_ERROR (offline), or
        PartitionStarting, which has that code too.
        """
        runtime = self._ready.get(topic_partition)
        if runtime is not None:
            return runtime
        expected = self._expected.get(topic_partition)
        if expected is not None:
            await asyncio.wait({expected[1]}, timeout=self.settings.start_wait_max_s)
        assignment = self._assignments.get(topic_partition)
        if assignment is None or self._is_closed:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is not assigned here")
        if assignment.runtime is None:
            runtime = self._start(assignment, is_awaited=is_awaited)
        else:
            runtime = assignment.runtime
            if is_awaited:
                self._starts.ask(runtime)
            if isinstance(runtime.state, Offline):
                raise runtime.offline_error()
            if runtime.state.is_final:
                raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"the partition is {runtime.state_name}")
        await asyncio.wait({runtime.started}, timeout=self.settings.start_wait_max_s)
        if not runtime.started.done():
            raise PartitionStarting(f"the partition is still {runtime.state_name}")
        runtime.started.result()
        return runtime

    def ask(self, topic_partition: TopicPartition) -> None:
        """A client waits now for a partition whose start nobody waited for."""
        assignment = self._assignments.get(topic_partition)
        if assignment is not None and assignment.runtime is not None:
            self._starts.ask(assignment.runtime)

    @property
    def starts_waiting(self) -> int:
        """How many partitions wait for their start's turn."""
        return self._starts.waiting_count

    async def prove_looks(self) -> bool:
        """Implements bmq.proxy.partitions.Partitions: the store's root file cannot be shown by a server that was
        replaced."""
        return await self.context.store.prove(ROOT_FILE) is not None

    async def never_written(self, topic_partition: TopicPartition) -> int | None:
        """Implements bmq.proxy.partitions.Partitions. An owner makes the partition's directory before anything else, and
        only the deletion of its topic removes it; with a floor (rule 5) there must be records, so a start has to
        look."""
        assignment = self._assignments.get(topic_partition)
        if assignment is None or assignment.runtime is not None or assignment.floor > 0 or self._is_closed:
            return None
        if await self.context.store.status(partition_directory(topic_partition)) is not None:
            return None
        if self._assignments.get(topic_partition) is not assignment or topic_partition in self._expected:
            return None
        return assignment.leader_epoch

    def _start(self, assignment: _Assignment, *, is_awaited: bool) -> PartitionRuntime:
        runtime = PartitionRuntime(
            self.context,
            assignment.topic_partition,
            assignment.topic_name,
            assignment.leader_epoch,
            assignment.config,
            assignment.floor,
            self._changed,
        )
        assignment.runtime = runtime
        self._started[runtime] = None
        task = self._loop.create_task(self._begin(runtime, is_awaited=is_awaited, is_paced=assignment.is_handed_over))
        self._starting[task] = None
        task.add_done_callback(self._starting.pop)
        return runtime

    async def _begin(self, runtime: PartitionRuntime, *, is_awaited: bool, is_paced: bool) -> None:
        """Run the start when it has its turn, and let the next one begin when it is over or takes too long."""
        async with self._starts.slot(runtime, is_awaited=is_awaited, is_paced=is_paced):
            if not runtime.state.is_final:
                runtime.begin()
                await asyncio.wait({runtime.started}, timeout=self.settings.start_wait_max_s)

    def _changed(self, runtime: PartitionRuntime) -> None:
        key = runtime.topic_partition
        if runtime.is_owning:
            assignment = self._assignments.get(key)
            if assignment is not None and assignment.runtime is runtime:
                self._ready[key] = runtime
                try:
                    self._on_owned()
                except Exception:  # noqa: BLE001 the listener's bug; the partition is owned anyway
                    _log.exception("owned_callback_failed")
            return
        self._started.pop(runtime, None)
        assignment = self._assignments.get(key)
        if isinstance(runtime.state, Fenced | Offline) and assignment is not None and assignment.runtime is runtime:
            self._unserved[runtime] = None
        if self._ready.get(key) is runtime:
            del self._ready[key]

    async def start_all(self, concurrency_max: int | None = None) -> int:
        """Start every assigned partition, those first whose last owner did not seal its directory; how many started.

        A partition that cannot start now is reported and keeps trying.
        """
        pending = tuple(self._idle())
        listings = asyncio.Semaphore(LISTINGS_MAX)

        async def is_clean(key: TopicPartition) -> bool:
            async with listings:
                try:
                    entries = await self.context.store.list_directory(partition_directory(key))
                except StoreError:
                    return True  # never written, or not to be read now
            return not EpochListing.of(entries).open_epochs

        cleanliness = await asyncio.gather(*(is_clean(key) for key in pending))
        ordered = [key for _, key in sorted(zip(cleanliness, pending, strict=True), key=lambda pair: pair[0])]
        gate = asyncio.Semaphore(concurrency_max or self.settings.starts_max)

        async def begin(key: TopicPartition) -> bool:
            async with gate:
                try:
                    await self.leader_of(key)
                except KafkaError as error:
                    _log.warning("partition_not_started", partition=partition_directory(key), reason=str(error))
                    return False
                return True

        return sum(await asyncio.gather(*(begin(key) for key in ordered)))

    # --- everything at once

    def states(self) -> Mapping[str, int]:
        """Number of partitions in each state; `unopened`: assigned but never needed since."""
        return Counter(
            "unopened" if assignment.runtime is None else assignment.runtime.state_name
            for assignment in self._assignments.values()
        )

    def _under_replicated(self) -> int:
        """Partitions whose open segment has records on fewer nodes than the store has files on when all are healthy."""
        return sum(runtime.is_under_replicated for runtime in self._started)

    def _delayed(self) -> Iterable[tuple[int, int | None]]:
        """How many records wait in each owned partition with delayed records, and when the first one is due."""
        views = (runtime.timers.view for runtime in self._started)
        return [(view.count, view.first_due_ms) for view in views if view is not None]

    def unserved(self) -> Iterable[PartitionRuntime]:
        """Assigned partitions whose log ended by itself: offline (an operator has to decide) or fenced."""
        return tuple(self._unserved)

    def fenced(self) -> tuple[TopicPartition, ...]:
        """Assigned partitions that a newer owner has taken; they need a new assignment."""
        return tuple(
            key
            for key, assignment in self._assignments.items()
            if assignment.runtime is not None and isinstance(assignment.runtime.state, Fenced)
        )

    async def apply_retention(self) -> None:
        """One round over all started partitions, one after the other."""
        await self._backlogs.apply_retention(tuple(self._started), self.context.clock.now_ms())

    async def close(self) -> None:
        """Stop in order, at most `stop_wait_max_s`: in-flight produces finish, checkpoints are saved, epochs sealed."""
        if self._is_closed:
            return
        self._is_closed = True
        for topic_partition in tuple(self._expected):
            self.expect_no_more(topic_partition)
        self._upkeep_timer.cancel()
        self._retention_timer.cancel()
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for task in (self._retention, self._idle_round):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        if self._compaction_scheduler is not None:
            await self._compaction_scheduler.close()
        await self._backlogs.close()
        runtimes = tuple(self._started)
        for runtime in runtimes:
            runtime.stop()
        waiting = {runtime.ended for runtime in runtimes if not runtime.ended.done()}
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self.settings.stop_wait_max_s)
            if late:
                _log.warning("partitions_not_sealed", count=len(late))
        for runtime in runtimes:
            runtime.give_up()
        tasks = [*(task for runtime in runtimes for task in runtime.tasks), *self._starting]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self.context.half_checker is not None:
            await self.context.half_checker.close()
        self.context.opener.close()
        await self.context.deferred_deletes.close()
        _log.info("partitions_closed", count=len(runtimes))

    def _upkeep(self) -> None:
        self._upkeep_timer = self._loop.call_later(self.settings.upkeep_interval_s, self._upkeep)
        self._start_with_delay()
        self._upkeep_some(iter(tuple(self._ready.values())))

    def _upkeep_some(self, runtimes: Iterator[PartitionRuntime]) -> None:
        """The next of these partitions, and after the other callbacks that are due the rest: there may be thousands."""
        if self._is_closed:
            return
        now_s, now_ms = self._loop.time(), self.context.clock.now_ms()
        with_quotas = []
        count = 0
        for runtime in islice(runtimes, UPKEEP_PER_TURN_MAX):
            count += 1
            if now_s >= runtime.upkeep_due_s:
                try:
                    runtime.upkeep(now_s, now_ms)
                except Exception as error:  # noqa: BLE001 its state is consistent; go on with the others
                    _report_failure("partition_upkeep_failed", runtime, error)
            if runtime.config.has_backlog_quota:
                with_quotas.append(runtime)
        if with_quotas:
            self._backlogs.check_quotas(with_quotas, now_s, now_ms)
        if count == UPKEEP_PER_TURN_MAX:
            self._loop.call_soon(self._upkeep_some, runtimes)

    def _begin_retention(self) -> None:
        self._retention_timer = self._loop.call_later(
            self.settings.retention_check_interval_ms / 1000, self._begin_retention
        )
        if self._retention is None or self._retention.done():
            self._retention = self._loop.create_task(self.apply_retention())
        if not self._is_in_idle_round:
            self._idle_round = self._loop.create_task(self._idle_starts.round(self._idle()))

    @property
    def _is_in_idle_round(self) -> bool:
        return self._idle_round is not None and not self._idle_round.done()

    def _start_idle_soon(self) -> None:
        if self._idle_timer is None and not self._is_closed and len(self._started) < self.settings.idle_starts_max:
            self._idle_timer = self._loop.call_later(self.settings.idle_start_delay_s, self._begin_idle_starts)

    def _begin_idle_starts(self) -> None:
        self._idle_timer = None
        if self._is_in_idle_round:
            self._start_idle_soon()
            return
        starts_max = self.settings.idle_starts_max - len(self._started)
        if starts_max > 0:
            soon = self._idle_starts.round(self._idle(), starts_max=starts_max, share=SHARE_SOON)
            self._idle_round = self._loop.create_task(soon)

    def _idle(self) -> dict[TopicPartition, int]:
        """Leader epochs of assigned partitions that nobody has asked for."""
        return {key: one.leader_epoch for key, one in self._assignments.items() if one.runtime is None}
