"""One partition's half messages at its owner: which are undecided, when they are checked next, and where their bodies are."""

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
"""Most half messages of a partition that are undecided, or decided and not yet delivered: some 400 bytes of memory each."""


class Checks(Protocol):
    """Checks half messages whose time has come, and copies those that are given up."""

    def schedule_wake_up(self) -> None:
        """Start the checks and copies that are due, and set the wake-up for the next."""

    def end(self) -> None:
        """The partition's machine has ended: cancel the wake-up."""

    async def decide(self, asked: Sequence[AskedDecision]) -> str | None:
        """Append all of these decisions or none. Returns None once they are durable, else the reason. Raises HalfRefused."""


class PartitionHalf:
    """Implements partition_timers.HeldRecordSource. Set `checks` before any method is called."""

    checks: Checks

    def __init__(self, partition: OwnedPartition, read: Callable[[int, int], Awaitable[WholeBatches | None]]) -> None:
        self._partition = partition
        self._replay = HalfReplay()
        self.order = HalfOrder()
        self.schedule = CheckSchedule(terms_of(partition.config))
        self.reader = HalfReader(read)

    # --- as HeldRecordSource

    def config_changed(self, config: LogConfig) -> None:
        """Follow new settings. Checks made so far are then estimated from the time that has passed, as at a new owner."""
        terms = terms_of(config)
        if terms != self.schedule.terms:
            self.schedule = CheckSchedule(terms)
            self._schedule_all()
        self.checks.schedule_wake_up()

    def schedule_wake_up(self) -> None:
        self.checks.schedule_wake_up()

    def end(self) -> None:
        self.checks.end()

    def replay(self) -> HalfReplay:
        self._replay = HalfReplay()
        return self._replay

    def begin(self, position: Position) -> None:
        """Take over what the replay found; deliveries have come to `position`. Raises CorruptRecords."""
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
        self.checks.schedule_wake_up()

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
