"""Asks for undecided half messages when their checks are due, decides them by the answers, and gives up those without one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import structlog

from bmq.aio.wake_up import WakeUp
from bmq.broker.half.half_decisions import HalfDecisions
from bmq.broker.half.partition_half import PartitionHalf
from bmq.broker.half_checker import Check, CheckAnswer, CheckRequest, CheckTarget, HalfChecker, NobodyAsked
from bmq.broker.owned_partition import OwnedPartition
from bmq.broker.ownership import Ownership
from bmq.broker.replica_guard import ReplicaGuard
from bmq.broker.timers.partition_timers import PartitionTimers
from bmq.log.half.half_body import record_of
from bmq.log.half.half_headers import AskedDecision, Outcome
from bmq.log.store import StoreError
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

CHECKS_MAX: Final = 500
"""Half messages that are asked about at once: some 5 ms of the event loop."""
REQUESTS_MAX: Final = 4
"""Requests of checks of one partition in flight to a service, which may take long to answer, while more checks come due."""
TOPIC_REQUESTS_MAX: Final = 2
"""Those to a topic: one waits for its append, and the next one is made meanwhile."""
COPIES_BYTES_MAX: Final = 512 * 1024
"""A batch of copies of given-up messages takes no further one once it has this many bytes."""
PAUSE_S: Final = 0.2
"""Pause between two requests of checks, so that checks that come due one by one share a request.

There is no pause while more checks are due than one request takes.
"""
CLOCK_READ_S_MAX: Final = 1.0
"""While messages are undecided, the wall clock is read at least this often, because it may be set."""
COPY_RETRY_S_MAX: Final = 30.0

_log = structlog.get_logger("bmq.broker")


class HalfChecks:
    """Implements partition_half.Checks. At most REQUESTS_MAX requests of checks and one of copies are in flight."""

    def __init__(
        self,
        partition: OwnedPartition,
        half: PartitionHalf,
        timers: PartitionTimers,
        guard: ReplicaGuard,
        ownership: Ownership,
    ) -> None:
        self._partition = partition
        self._half = half
        self._decisions = HalfDecisions(partition, timers, half, guard)
        self._ownership = ownership
        self._wake_up = WakeUp(asyncio.get_running_loop(), self._begin_due)
        self._is_copying = False
        self._requests = 0  # of checks, in flight
        self._is_taking = False  # one of these waits for room, and has not taken its checks yet
        self._is_behind = False  # more checks are due than the last request took
        self._asked: set[int] = set()  # messages whose checks are in flight: a later check of theirs is left out
        self._to_give_up: list[int] = []
        self._copied: set[int] = set()  # messages whose copies are durable, while the decision GIVEN_UP is not
        self._has_warned = False

    async def decide(self, asked: Sequence[AskedDecision]) -> str | None:
        """Append these decisions. Returns None once they are durable, else the reason. Raises HalfRefused."""
        for one in asked:
            self._half.order.check(one)
        return await self._decisions.append(asked)

    # --- when

    def schedule_wake_up(self) -> None:
        """Start to copy given-up messages, and set the wake-up for the next check."""
        partition, config = self._partition, self._partition.config
        if partition.closed_code() is not ErrorCode.NONE or not partition.is_owning or self._checker() is None:
            return
        if config.half_given_up_topic and self._half.order.given_up_count and not self._is_copying:
            self._is_copying = True
            partition.machine.spawn(self._copy_all())
        next_ms = self._half.schedule.next_ms if self._target() is not None else None
        if next_ms is None or not self._may_ask():
            return
        wait_s = (next_ms - partition.context.clock.now_ms()) / 1000
        self._wake_up.within(min(max(0.0 if self._is_behind else PAUSE_S, wait_s), CLOCK_READ_S_MAX))

    def end(self) -> None:
        """The machine has ended."""
        self._wake_up.cancel()

    def _begin_due(self) -> None:
        if self._partition.state.is_final or not self._may_ask():
            return
        next_ms = self._half.schedule.next_ms
        if next_ms is not None and next_ms <= self._partition.context.clock.now_ms():
            self._is_taking = True
            self._requests += 1
            self._partition.machine.spawn(self._check())
        else:
            self.schedule_wake_up()

    def _may_ask(self) -> bool:
        """Whether one more request of checks may begin."""
        requests_max = REQUESTS_MAX if self._partition.config.half_check_url else TOPIC_REQUESTS_MAX
        return not self._is_taking and self._requests < requests_max

    def _checker(self) -> HalfChecker | None:
        return self._partition.context.half_checker

    def _target(self) -> CheckTarget | None:
        config = self._partition.config
        target = CheckTarget(config.half_check_url, config.half_check_topic)
        return target if target.url or target.topic else None

    # --- checks

    async def _check(self) -> None:
        asked: list[Check] = []
        try:
            await self._ask(asked)
        finally:
            self._requests -= 1
            self._asked.difference_update(one.offset for one in asked)
        self.schedule_wake_up()

    async def _ask(self, asked: list[Check]) -> None:
        """Ask about what is due, which is put into `asked`, and decide by the answer."""
        has_taken = False

        async def take() -> CheckRequest | None:
            nonlocal has_taken
            try:
                request = await self._take()
            finally:
                has_taken, self._is_taking = True, False
            asked.extend(request.checks if request is not None else ())
            self._asked.update(one.offset for one in asked)
            self.schedule_wake_up()
            return request

        counts = self._partition.context.counts
        answer: CheckAnswer | None = None
        checker, target = self._checker(), self._target()
        try:
            if checker is not None and target is not None:
                answer = await checker.ask(target, take)
                counts.half_checks += len(asked)
                self._has_warned = False
        except (BmqError, StoreError) as error:
            counts.half_checks_failed += len(asked)
            self._is_behind = False
            if isinstance(error, NobodyAsked):
                self._half.schedule.not_made([one.offset for one in asked])
            if not self._has_warned:
                self._has_warned = True
                reason = str(error) or type(error).__name__
                _log.warning("half_messages_not_checked", **self._partition.names(), reason=reason)
        finally:
            if not has_taken:
                self._is_taking = False
        if answer is not None:
            await self._decide(answer, {one.offset for one in asked})
        await self._give_up()

    async def _take(self) -> CheckRequest | None:
        """The due checks of undecided messages; None if there are none.

        Proves ownership first: if there is a newer owner, it may know of decisions that we do not.
        """
        await self._ownership.prove()
        partition, order = self._partition, self._half.order
        await partition.context.due_turns.next()
        checks = []
        for due in self._half.schedule.take(partition.context.clock.now_ms(), CHECKS_MAX):
            half = order.half(due.offset) if order.is_undecided(due.offset) else None
            if half is None:
                continue
            if due.offset in self._asked:  # its answer may still come, and decides before it is given up
                if due.number is not None:
                    self._half.schedule.not_made((due.offset,))
            elif due.number is None:
                self._to_give_up.append(due.offset)
            else:
                checks.append(Check(half.offset, half.check_id, due.number))
        next_ms = self._half.schedule.next_ms
        self._is_behind = next_ms is not None and next_ms <= partition.context.clock.now_ms()
        if not checks:
            return None
        return CheckRequest(partition.topic_name, partition.topic_partition.partition, tuple(checks))

    async def _decide(self, answer: CheckAnswer, asked: set[int]) -> None:
        decisions = [AskedDecision(Outcome.COMMIT, offset) for offset in answer.committed if offset in asked]
        decisions += [AskedDecision(Outcome.ROLLBACK, offset) for offset in answer.rolled_back if offset in asked]
        reason = await self._decisions.append(decisions)
        if reason is not None:  # the next check will ask again
            _log.warning("half_messages_not_decided", **self._partition.names(), reason=reason)

    # --- given up

    async def _give_up(self) -> None:
        given_up, self._to_give_up = self._to_give_up, []
        if given_up and self._partition.config.half_given_up_topic:
            # A refused decision is tried again: the schedule yields the message again after an interval.
            await self._decisions.append([AskedDecision(Outcome.GIVING_UP, offset) for offset in given_up])

    async def _copy_all(self) -> None:
        try:
            await self._copy()
        finally:
            self._is_copying = False
        self.schedule_wake_up()

    async def _copy(self) -> None:
        partition, order = self._partition, self._half.order
        backoff = partition.context.backoff()
        while not partition.state.is_final and partition.closed_code() is ErrorCode.NONE:
            topic, checker = partition.config.half_given_up_topic, self._checker()
            if not topic or checker is None or not order.given_up_count:
                return
            try:
                reason = await self._copy_some(checker, topic)
            except (BmqError, StoreError) as error:
                reason = str(error) or type(error).__name__
            if reason is None:
                backoff.reset()
                continue
            if not backoff.failures:
                _log.warning("half_messages_not_given_up", **partition.names(), reason=reason)
            await asyncio.sleep(min(backoff.next_s(), COPY_RETRY_S_MAX))

    async def _copy_some(self, checker: HalfChecker, topic: str) -> str | None:
        """Copy some given-up messages to `topic`, and decide them GIVEN_UP. Returns why that is not durable, or None."""
        if not self._copied:
            offsets, records = await self._copies()
            # An owner that was replaced must not copy: the next owner copies the same messages.
            await self._ownership.prove()
            await checker.copy(topic, self._partition.topic_partition.partition, records)
            self._copied.update(offsets)
        ended = [AskedDecision(Outcome.GIVEN_UP, offset) for offset in sorted(self._copied)]
        reason = await self._decisions.append(ended)
        if reason is None:
            self._copied.clear()
        return reason

    async def _copies(self) -> tuple[list[int], list[Record]]:
        offsets: list[int] = []
        records: list[Record] = []
        size_bytes = 0
        for half in self._half.order.given_up(CHECKS_MAX):
            timestamp_ms, body = await self._half.reader.body(half)
            record = record_of(body, timestamp_ms)
            names = (
                ("bmq-half-topic", self._partition.topic_name.encode()),
                ("bmq-half-partition", b"%d" % self._partition.topic_partition.partition),
                ("bmq-half-offset", b"%d" % half.offset),
            )
            # Under its own name the header would make the copy a half message, if that topic has bmq.half.enable.
            headers = (("bmq-half-id" if name == "bmq-half" else name, value) for name, value in record.headers)
            records.append(record._replace(headers=(*headers, *names)))
            offsets.append(half.offset)
            size_bytes += len(body)
            if size_bytes >= COPIES_BYTES_MAX:
                break
        return offsets, records
