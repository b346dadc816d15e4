"""A shard: one partition of a replicated state machine, at the partition's owner. Subclasses are the state machines.

A state machine's own methods decide and change nothing: they append records, and `replay` changes the state once those
are durable, live and after a restart alike (bmq.log.state_log). Requests that wait for an answer use a future
(`answer_of`); deadlines are set with `wake_ms` and handled in `tick`. This module does the rest: loading, snapshots,
proofs of ownership, one timer, and the end.

A shard is lost when its log reports another owner: waiting requests get NOT_COORDINATOR, and the state is dropped. It
is also lost when an exception is raised while state changes or answers are given (rule 23). Its owner loads it again
from the log at the next request.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, ClassVar, Final, Protocol

import structlog

from bmq.coordinator.runtime.moment import NEVER_MS, Moment
from bmq.coordinator.runtime.recent_proof import ProofAge, proof_age
from bmq.log.clock import Clock
from bmq.log.partition_log import ReplayableLog
from bmq.log.state_log import KeyValue, Producer, SnapshotPolicy, StateLog, TransactionReplay
from bmq.log.store import FencedWriter
from bmq.log.transactions import TransactionMarker
from bmq.protocol.error_codes import OTHER_LEADER, ErrorCode
from bmq.protocol.errors import BmqError, KafkaError, MalformedMessage

_log = structlog.get_logger("bmq.coordinator")

LATE_WAKE_MS: Final = 1_000
"""A timer this late means that this process was stalled and may have unread heartbeats: deadlines are extended."""
_SNAPSHOT_SHARE: Final = 8
"""Save a snapshot only when at least one eighth of the state may have changed."""


class ShardMetrics(Protocol):
    """The metrics that this module counts."""

    loaded_shards: int
    lost_shards: int


class Shard(ABC):
    """`number` is the partition's. `is_lost` once another owner has it. Create and `load` it inside its event loop."""

    kind: ClassVar[str]
    """The kind of shard, for log lines."""

    def __init__(
        self,
        number: int,
        log: ReplayableLog,
        clock: Clock,
        policy: SnapshotPolicy,
        metrics: ShardMetrics,
        on_lost: Callable[[Any], None],
    ) -> None:
        self.number = number
        self.is_lost = False
        self.state_log = StateLog(log, clock, policy)
        self._clock = clock
        self._shard_metrics = metrics
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = NEVER_MS
        self._is_renewing_proof = False
        self._tasks: dict[asyncio.Task[None], None] = {}  # cancelled in this order
        self._waiting: dict[asyncio.Future[Any], None] = {}  # callers that wait for an answer

    # ---------------------------------------------------------------- the state machine

    @abstractmethod
    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply a durable record: the only place where durable state changes. Must not raise, whatever the bytes.

        A RecordRun (state_log.py) that the state machine writes itself does this in its `apply`.
        """

    def replay_transactional(self, key: bytes | None, value: bytes | None, offset: int, producer: Producer) -> None:
        """Like `replay`, for the record at `offset`, which counts once its producer's transaction commits.

        A state machine that writes no transactional records treats it like any other.
        """
        self.replay(key, value)

    def replay_end(self, producer: Producer, is_commit: bool) -> None:  # noqa: B027
        """Like `replay`, for a marker: the producer's transaction has ended."""

    @abstractmethod
    async def restore(self, data: bytes) -> None:
        """Restore the state that `snapshot` returned; called once, before any `replay`. Raises MalformedMessage."""

    @abstractmethod
    def snapshot(self) -> Awaitable[bytes]:
        """The state at the time of this call, encoded in small turns of the loop."""

    @abstractmethod
    def begin(self) -> None:
        """The whole log was replayed: start deadlines and answers."""

    @abstractmethod
    def unload(self, error: ErrorCode) -> None:
        """Answer all waiting requests with this error, and drop the state."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of things in the state: a large state is saved less often."""

    @property
    def facts(self) -> dict[str, int]:
        """Additional fields of the log line that reports a loaded shard."""
        return {}

    @property
    def wake_ms(self) -> float:
        """When `tick` is due next, on the loop's clock; NEVER_MS: never."""
        return NEVER_MS

    def tick(self, now: Moment) -> None:  # noqa: B027  (a state machine without deadlines has nothing to do)
        """Handle what is due at `now`, and advance `wake_ms`."""

    def after_stall(self) -> None:  # noqa: B027
        """This process was stalled: clients' requests are unread in the sockets, or were dropped there."""

    # ---------------------------------------------------------------- life

    async def load(self) -> None:
        """Replay the log. Raises KafkaError (KAFKA_STORAGE_ERROR: the snapshot does not parse), StoreError."""
        started_s = self._loop.time()
        transactions = TransactionReplay(self.replay_transactional, self.replay_end)
        try:
            count = await self.state_log.replay(self.replay, self.restore, transactions)
        except MalformedMessage as error:  # as it is, clients would take it for a fault of their request
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the state cannot be read: {error}") from error
        self.begin()
        self._shard_metrics.loaded_shards += 1
        self._save_snapshot_if_due()
        _log.info(
            f"{self.kind}_shard_loaded",
            shard=self.number,
            records=count,
            **self.facts,
            duration_ms=round((self._loop.time() - started_s) * 1000),
        )

    def lose(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """The log was lost without notice: answer all waiting requests and drop the state."""
        if not self.is_lost:
            _log.warning(f"{self.kind}_shard_lost", shard=self.number)
            self._give_up(error)

    def release(self, error: ErrorCode = ErrorCode.NOT_COORDINATOR) -> None:
        """Like `lose`, for an ending that was ordered: we stop, or the partition was assigned elsewhere."""
        if not self.is_lost:
            _log.debug(f"{self.kind}_shard_released", shard=self.number)
            self._give_up(error)

    def _give_up(self, error: ErrorCode) -> None:
        self.is_lost = True
        self.state_log.give_up()
        self.close()
        try:
            self.unload(error)
        except Exception:  # noqa: BLE001 requests in `answer_of` are failed below all the same
            _log.exception(f"{self.kind}_shard_not_unloaded", shard=self.number)
        for waiting in self._waiting:
            if not waiting.done():  # `unload` did not answer it
                waiting.set_exception(KafkaError(error))
        self._shard_metrics.lost_shards += 1
        self._on_lost(self)

    def fail(self, error: BaseException) -> None:
        """An exception interrupted a change, so memory may differ from the log: log the error and lose the shard."""
        if not self.is_lost:
            _log.error(f"{self.kind}_shard_failed", shard=self.number, error=repr(error), exc_info=error)
            self.lose()

    def close(self) -> None:
        """Stop the timer and background writes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in self._tasks:
            task.cancel()

    # ---------------------------------------------------------------- for the state machine

    def elapsed_ms(self) -> float:
        """For the age of proofs of ownership (rule 34): the loop's clock stands still while the machine sleeps."""
        return self._clock.elapsed_s() * 1000

    def now(self) -> Moment:
        return Moment(self._loop.time() * 1000, self._clock.now_ms())

    def append(self, records: Sequence[KeyValue], producer: Producer | None = None) -> asyncio.Future[int]:
        """Like StateLog.append; losing the log loses the shard."""
        done = self.state_log.append(records, producer)
        done.add_done_callback(self._appended)
        return done

    def append_marker(self, marker: TransactionMarker) -> asyncio.Future[int]:
        """Like StateLog.append_marker; losing the log loses the shard."""
        done = self.state_log.append_marker(marker)
        done.add_done_callback(self._appended)
        return done

    async def answer_of(self, waiting: asyncio.Future[Any]) -> Any:
        """Wait for the state machine's answer. Raises KafkaError when the shard was lost without one."""
        self._waiting[waiting] = None
        try:
            return await waiting
        finally:
            self._waiting.pop(waiting, None)

    async def prove(self) -> None:
        """For rule 15, before an answer from memory. Raises KafkaError NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE."""
        try:
            await self.state_log.prove_ownership()
        except FencedWriter as error:
            self.lose()
            raise KafkaError(ErrorCode.NOT_COORDINATOR) from error
        except BmqError as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
        if self.is_lost:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    async def prove_since(self, asked_ms: float) -> None:
        """Like `prove`, unless an append or a proof that began at `asked_ms` or later has proven it already."""
        if self.state_log.proven_ms < asked_ms:
            await self.prove()
        elif self.is_lost:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)

    def is_proven(self, asked_ms: float) -> bool:
        """Whether a heartbeat that came at `asked_ms` (`elapsed_ms`) may be answered without `prove` (rule 34).

        Renews the proof in the background before it is too old, so that the next heartbeats need not wait.
        """
        age = proof_age(self.state_log.proven_ms, asked_ms)
        if age is ProofAge.FADING and not self._is_renewing_proof and not self.is_lost:
            self._is_renewing_proof = True
            self._spawn(self._renew_proof())
        return age is not ProofAge.OVER

    async def _renew_proof(self) -> None:
        try:
            with contextlib.suppress(BmqError):  # later heartbeats call `prove` and get its error
                await self.prove()
        finally:
            self._is_renewing_proof = False

    def arm(self) -> None:
        """Call when `wake_ms` may have become earlier."""
        wake_ms = self.wake_ms
        if wake_ms >= self._timer_at_ms or self.is_lost:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at_ms = wake_ms
        self._timer = self._loop.call_at(wake_ms / 1000, self._wake)

    def _wake(self) -> None:
        due_ms, self._timer_at_ms = self._timer_at_ms, NEVER_MS
        self._timer = None
        try:
            now = self.now()
            if now.loop_ms - due_ms > LATE_WAKE_MS:
                self.after_stall()
            # The loop may run a timer a clock tick early; without this the same deadline would be armed over and over.
            self.tick(now._replace(loop_ms=now.loop_ms + 1))
        except Exception as error:  # noqa: BLE001 any bug is answered or logged
            self.fail(error)
        else:
            self.arm()

    # ---------------------------------------------------------------- the log

    def _appended(self, done: asyncio.Future[int]) -> None:
        self.append_ended(None if done.cancelled() else done.exception())

    def append_ended(self, error: BaseException | None) -> None:
        """Call it with the outcome of each append of a RecordRun."""
        if isinstance(error, BmqError) and error.code in OTHER_LEADER:
            self.lose()
        elif not self.is_lost:
            if isinstance(error, BmqError) and error.code is ErrorCode.KAFKA_STORAGE_ERROR:
                self._spawn(self._check_log())
            self._save_snapshot_if_due()

    async def _check_log(self) -> None:
        """Check whether the partition is offline, so that this log will never accept a record, or only refused one."""
        with contextlib.suppress(BmqError):
            await self.prove()

    async def save_snapshot(self, *, force: bool = False) -> bool:
        """Save the state if the log since the last snapshot is long, or if forced; whether it did. Raises BmqError."""
        return await self.state_log.save_snapshot(self.snapshot, force=force)

    def _save_snapshot_if_due(self) -> None:
        log = self.state_log
        # A large state is written again only once a share of it may have changed: that bounds how often everything is
        # rewritten, and a failover replays at most that share.
        if not log.is_snapshot_due or log.records_since_snapshot * _SNAPSHOT_SHARE < self.size:
            return

        async def save() -> None:
            try:
                if await self.save_snapshot():
                    _log.info(
                        f"{self.kind}_snapshot_saved", shard=self.number, next_offset=self.state_log.applied_offset
                    )
            except BmqError as error:
                _log.warning(f"{self.kind}_snapshot_failed", shard=self.number, error=str(error))

        self._spawn(save())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        error = None if task.cancelled() else task.exception()
        if error is not None:  # no state depends on it: at worst a load replays more
            _log.error(f"{self.kind}_shard_task_failed", shard=self.number, error=repr(error), exc_info=error)
