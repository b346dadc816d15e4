"""The metadata log and its state: takes decisions in turn, writes their records, publishes images.

One request decides at a time, on a state that includes everything decided before it: a turn ends when its records are
durable and applied, or refused. So a decision never depends on records that may still fail, and nothing above the
metadata log's high watermark is acted on, answered or published (rule 17).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, TypeVar

import structlog

from bmq.aio.loop_turns import LoopTurns, run_in_turns
from bmq.controller.config import ControllerConfig
from bmq.controller.decision import Decision, refuse_all
from bmq.controller.metadata_run import MetadataRun
from bmq.controller.metrics import ControllerMetrics
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.state_log import SnapshotPolicy, StateLog
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.image import MetadataImage
from bmq.metadata.state import ImpossibleRecord, MetadataState
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.metadata_records import MetadataRecord, decode_record
from bmq.protocol.turns import NO_TURNS, Turns
from bmq.protocol.wire_turns import InTurns

_log = structlog.get_logger("bmq.controller")
R = TypeVar("R")
Decide = Callable[[MetadataImage, BrokerConfigs], Decision[R] | InTurns[Decision[R]]]
"""Decides at once, or in turns of the event loop (decision.Deciding); nobody else decides meanwhile."""


class ControllerGone(KafkaError):
    """The metadata log has another owner: this controller must not decide any more."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "this node is not the active controller any more")


class DecisionLog:
    """`replay` first, then `activate`; `close` ends it. `on_image(old, new)` must not raise.

    `gone` is set once we find that this is no longer the active controller.
    """

    def __init__(
        self,
        log: ReplayableLog,
        state: MetadataState,
        clock: Clock,
        config: ControllerConfig,
        on_image: Callable[[MetadataImage, MetadataImage], None],
    ) -> None:
        self.state = state
        self.image = MetadataImage(cluster_id=config.cluster_id)
        self.broker_configs = state.broker_configs_of({})
        self.gone = asyncio.Event()
        self.metrics = ControllerMetrics(lambda: self.image, lambda: self.is_active)
        self._state_log = StateLog(log, clock, SnapshotPolicy(records_max=config.snapshot_records_max))
        self._config = config
        self._on_image = on_image
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._is_activated = False
        self._skipped = 0  # records skipped because an accepted loss removed what they change
        self._is_closed = False
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def log(self) -> ReplayableLog:
        return self._state_log.log

    @property
    def is_active(self) -> bool:
        """Whether decisions are taken here."""
        return self._is_activated and not self._is_closed and not self.gone.is_set()

    @property
    def has_gap(self) -> bool:
        """Whether an operator accepted that the beginning of the metadata is lost."""
        return self._state_log.has_gap

    @property
    def applied_offset(self) -> int:
        """The offset that follows the last applied record; the next record gets it."""
        return self._state_log.applied_offset

    async def replay(self) -> int:
        """Bring the state up to the high watermark; the number of records replayed, besides a snapshot.

        Raises KafkaError, StoreError when the log cannot be read, ImpossibleRecord, MalformedMessage or UnsupportedVersion
        when it cannot be understood.
        """
        count = await self._state_log.replay(self._apply, self.state.replay_snapshot)
        if self._skipped:
            _log.error("metadata_records_skipped", records=self._skipped, reason="they change what was lost")
        return count

    async def activate(self, records: Iterable[MetadataRecord]) -> None:
        """Write the first records, publish the first image, and take decisions from now on. Raises KafkaError."""
        await self._append(records)
        self._publish()
        self._is_activated = True
        if self.has_gap:
            self.spawn(self._begin_here())

    def require_active(self) -> None:
        """Raises ControllerGone."""
        if not self.is_active:
            raise ControllerGone

    async def close(self) -> None:
        """Wait for writes under way, and save a snapshot if one is worth it."""
        was_active = self.is_active
        self._is_closed = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._config.close_wait_max_ms / 1000)
        if was_active and not self.gone.is_set() and self._state_log.records_since_snapshot:
            await self._save_snapshot(force=True)

    # --- deciding in turn

    async def answer(
        self,
        decide: Decide[R],
        timeout_ms: int,
        results_of: Callable[[R], Iterable[Any]],
        turns: Turns = NO_TURNS,
    ) -> R:
        """Decide and write.

        If writing fails, results that had succeeded get that error instead. Raises ControllerGone.
        """
        decided: list[R] = []

        def remember(image: MetadataImage, broker: BrokerConfigs) -> InTurns[Decision[R]]:
            decision = yield from _steps(decide(image, broker))
            decided.append(decision.response)
            return decision

        try:
            return await self.decide(remember, timeout_ms)
        except ControllerGone:
            raise
        except BmqError as error:
            # If it never got its turn, decide on the present image only to see which results would have succeeded.
            if not decided:
                await run_in_turns(remember(self.image, self.broker_configs), turns)
            response = decided[-1]
            refuse_all(results_of(response), error.code, str(error))
            return response

    async def decide(self, decide: Decide[R], timeout_ms: int) -> R:
        """Decide when our turn comes; returns the answer once its records are applied.

        Raises KafkaError: REQUEST_TIMED_OUT after `timeout_ms` (nothing is decided after that, but what was being
        written goes on), NOT_CONTROLLER, or the code of the failed write; and whatever `decide` raises.
        """
        config = self._config
        if self._waiting >= config.requests_waiting_max:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "too many requests wait for the controller")
        wait_s = min(max(timeout_ms, config.request_wait_min_ms), config.request_wait_max_ms) / 1000
        deadline = asyncio.get_running_loop().time() + wait_s
        self._waiting += 1
        task = self.spawn(self._take_turn(decide, deadline))
        try:
            async with asyncio.timeout(wait_s):
                return await asyncio.shield(task)
        except TimeoutError:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"not done within {round(wait_s * 1000)} ms") from None

    def spawn(self, work: Coroutine[Any, Any, R]) -> asyncio.Task[R]:
        """Run something that `close` waits for."""
        task: asyncio.Task[R] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_report)
        return task

    async def _take_turn(self, decide: Decide[R], deadline: float) -> R:
        # Of its own: failovers wait for this decision, so it must not wait for the long requests of others.
        turns = LoopTurns()
        try:
            async with self._turn:
                if asyncio.get_running_loop().time() >= deadline:
                    raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the controller was busy")
                self.require_active()
                decision = await run_in_turns(_steps(decide(self.image, self.broker_configs)), turns)
                if decision.records:
                    await self._append(decision.records, turns)
                return decision.response
        finally:
            self._waiting -= 1

    async def _append(self, records: Iterable[MetadataRecord], turns: Turns = NO_TURNS) -> None:
        """Write records as one batch, all or none, and publish the new image. Raises KafkaError."""
        run = MetadataRun(tuple(records), self._replay)
        if run.record_count:
            await run.encode(turns)
            self._state_log.append_run(run)
        else:
            run.finished(None)
        try:
            await run.done
        except BmqError as error:
            self.metrics.appends_failed += 1
            _log.warning("metadata_write_failed", error=str(error), code=error.code.name, records=run.record_count)
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self.gone.set()
                raise ControllerGone from error
            if error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
                self._publish()  # the records are in the log, and so in the state
            raise
        self.metrics.records_written += run.record_count
        self._publish()
        if self._state_log.is_snapshot_due:
            self.spawn(self._save_snapshot())

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        self._replay(decode_record(value or b""))

    def _replay(self, record: MetadataRecord) -> None:
        try:
            self.state.replay(record)
        except ImpossibleRecord as error:
            if not self.has_gap or self._is_activated:
                raise
            self._skipped += 1
            _log.debug("metadata_record_skipped", record=type(record).__name__, reason=str(error))

    def _publish(self) -> None:
        old = self.image
        new = self.state.image_at(self._state_log.applied_offset)
        if new is old:
            return
        self.image = new
        if new.broker_configs is not old.broker_configs:
            self.broker_configs = self.state.broker_configs_of(new.broker_configs)
        self._on_image(old, new)

    async def _begin_here(self) -> None:
        """Close the gap: save a snapshot of the present state and delete the log below it.

        The next controller then replays from the snapshot; nodes with metadata from before the loss have to load it.
        """
        offset = self._state_log.applied_offset
        try:
            await self._state_log.save_snapshot(self.state.snapshot, force=True)
            await self.log.delete_records(offset)
        except BmqError as error:
            _log.warning("metadata_snapshot_failed", error=str(error))  # the next controller will try to close the gap

    async def _save_snapshot(self, *, force: bool = False) -> None:
        try:
            if await self._state_log.save_snapshot(self.state.snapshot, force=force):
                self.metrics.snapshots_written += 1
                _log.info("metadata_snapshot_saved", offset=self._state_log.applied_offset)
        except BmqError as error:
            _log.warning("metadata_snapshot_failed", error=str(error))


def _steps(decided: Decision[R] | InTurns[Decision[R]]) -> InTurns[Decision[R]]:
    if isinstance(decided, Generator):
        return (yield from decided)
    return decided


def _report(task: asyncio.Task[Any]) -> None:
    """Retrieve and log the exception, since after a timeout nobody may be waiting. A waiting caller still gets it."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, BmqError):
        _log.error("controller_task_failed", task=task.get_name(), exc_info=error)
