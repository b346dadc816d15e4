"""The half messages of one partition at its owner: which are undecided, when they are checked, and where their bodies lie."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from bmq.broker.half.half_reader import HalfReader
from bmq.broker.owned_partition import OwnedPartition
from bmq.log.config import LogConfig
from bmq.log.half.check_schedule import CheckSchedule, CheckTerms
from bmq.log.half.half_body import with_offset
from bmq.log.half.half_headers import AskedDecision, Outcome
from bmq.log.half.half_order import HalfOrder
from bmq.log.half.half_replay import HalfReplay
from bmq.log.partition_log import WholeBatches
from bmq.log.timers.announcements import Position
from bmq.log.timers.delivering import DueRecord
from bmq.log.timers.waiting_records import Pending

UNDECIDED_MAX: Final = 100_000
"""Half messages of a partition that have not left: each takes some 400 bytes of memory."""


class Checks(Protocol):
    """Has half messages checked, and those given up copied."""

    def look(self) -> None:
        """Look for half messages to check or to copy."""

    def end(self) -> None:
        """The partition's machine has ended."""

    async def decide(self, asked: Sequence[AskedDecision]) -> str | None:
        """Decide all of these or none. None: the decisions are durable; else the reason why not. Raises HalfRefused."""


class PartitionHalf:
    """Implements partition_timers.OtherHolds. `checks` is set before anything else is called."""

    checks: Checks

    def __init__(self, partition: OwnedPartition, read: Callable[[int, int], Awaitable[WholeBatches | None]]) -> None:
        self._partition = partition
        self._replay = HalfReplay()
        self.order = HalfOrder()
        self.schedule = CheckSchedule(terms_of(partition.config))
        self.reader = HalfReader(read)

    # --- as OtherHolds

    def config_changed(self, config: LogConfig) -> None:
        """Under new settings the checks made so far are counted by time, as a new owner counts them."""
        terms = terms_of(config)
        if terms != self.schedule.terms:
            self.schedule = CheckSchedule(terms)
            self._schedule_all()
        self.checks.look()

    def look(self) -> None:
        self.checks.look()

    def end(self) -> None:
        self.checks.end()

    def replay(self) -> HalfReplay:
        self._replay = HalfReplay()
        return self._replay

    def begin(self, position: Position) -> None:
        """Raises CorruptRecords."""
        found, self._replay = self._replay, HalfReplay()
        self.order.recover(found.halves, found.decided, position, found.finished)
        self._schedule_all()

    def oldest_needed(self, high_watermark: int) -> int:
        return self.order.oldest_needed(high_watermark)

    def synced(self, high_watermark: int, position: Position) -> None:
        self.order.delivered(position)
        news = self.order.synced(high_watermark)
        if news is None:
            return
        counts = self._partition.context.counts
        now_ms = self._partition.context.clock.now_ms()
        for half in news.halves:
            self.schedule.add(half, now_ms)
        for decided in news.decided:
            self.schedule.forget(decided.offset)
            counts.half_committed += decided.outcome is Outcome.COMMIT
            counts.half_rolled_back += decided.outcome is Outcome.ROLLBACK
            counts.half_given_up += decided.outcome is Outcome.GIVEN_UP
        self.checks.look()

    def rollback(self, end_offset: int) -> None:
        self.order.rollback(end_offset)

    async def record(self, pending: Pending) -> DueRecord | None:
        half = self.order.committed_at(pending.offset)
        if half is None:
            return None
        timestamp_ms, body = await self.reader.body(half)
        return DueRecord(pending.offset, pending.due_ms, timestamp_ms, with_offset(body, half.offset))

    def _schedule_all(self) -> None:
        now_ms = self._partition.context.clock.now_ms()
        for half in self.order.undecided(0, UNDECIDED_MAX):
            self.schedule.add(half, now_ms)


def terms_of(config: LogConfig) -> CheckTerms:
    return CheckTerms(config.half_check_first_ms, config.half_check_interval_ms, config.half_checks_max)
