"""Asks back about the open transactions of one shard, and ends them by the answers. check_back.py decides.

One request is on its way at a time. An answer counts for the very state that it was asked about: a transaction that has ended meanwhile,
or has got another partition, is left alone. A next owner of the shard asks again, and the log has one outcome (rule 29).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

import structlog

from bmq.coordinator.runtime.moment import NEVER_MS, Moment
from bmq.coordinator.transactions.check_back import (
    TransactionCheckSchedule,
    first_check_ms,
    id_partitions,
    is_asked_about,
    name_of,
)
from bmq.coordinator.transactions.checker import Checks, TransactionCheck, TransactionChecker
from bmq.coordinator.transactions.metrics import TransactionMetrics
from bmq.log.store import StoreError
from bmq.protocol.errors import BmqError
from bmq.protocol.transaction_records import TransactionValue

CHECKS_MAX: Final = 100
"""Transactions that are asked about in one request."""
PAUSE_MS: Final = 100
"""Between two requests, so that checks that are due one by one are asked together."""
FAILED_PAUSE_MS: Final = 1_000
"""The same, after one that failed."""
LOOK_MS_MAX: Final = 10_000
"""While something is open, the wall clock is looked at so often: it may be set."""

_log = structlog.get_logger("bmq.coordinator")


class CheckedShard(Protocol):
    """The shard, as far as its checks use it.

    `value_of`: the durable state of an id; None for an id with a record in flight.
    """

    number: int
    is_lost: bool

    def now(self) -> Moment: ...
    def arm(self) -> None: ...
    async def prove(self) -> None: ...
    def value_of(self, transactional_id: str) -> TransactionValue | None: ...

    async def settle(
        self, transactional_id: str, value: TransactionValue, is_commit: bool
    ) -> asyncio.Future[int] | None:
        """Begin to end the transaction, if this is still the state of the id. Raises BmqError."""


class ShardChecks:
    """`spawn`: runs until the shard is closed."""

    def __init__(
        self,
        shard: CheckedShard,
        checks: Checks,
        metrics: TransactionMetrics,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self.look_ms = NEVER_MS
        """When `look` is to be called next, on the loop's clock."""
        self._shard = shard
        self._checks = checks
        self._metrics = metrics
        self._spawn = spawn
        self._schedule = TransactionCheckSchedule()
        self._is_live = False
        self._is_asking = False
        self._has_failed = False

    # ---------------------------------------------------------------- what is open

    def begin(self, ongoing: Iterable[tuple[str, TransactionValue | None]]) -> None:
        """The log was replayed, and these are open: the policy may be another one since. The shard arms its timer."""
        self.reconfigured(ongoing)
        self._is_live = True
        self._plan()

    def changed(self, transactional_id: str, value: TransactionValue | None) -> None:
        """This is the id's durable state now."""
        if not self._checks.is_on:
            return
        policy = self._checks.policy
        if value is None or not is_asked_about(policy, transactional_id, value):
            self._schedule.forget(transactional_id)
            return
        self._schedule.add(transactional_id, name_of(value), first_check_ms(policy, value))
        if self._is_live:
            self._plan()
            self._shard.arm()

    def reconfigured(self, ongoing: Iterable[tuple[str, TransactionValue | None]]) -> None:
        """The policy is another one."""
        self._schedule = TransactionCheckSchedule()
        for transactional_id, value in ongoing:
            self.changed(transactional_id, value)

    def hold_back(self, transactional_id: str) -> bool:
        """Whether a new instance of the producer has to wait before it aborts the open transaction."""
        if self._checks.checker is None:
            return False
        is_held = self._schedule.hold_back(transactional_id, self._shard.now().loop_ms)
        if is_held:
            self._plan()
            self._shard.arm()
        return is_held

    def _plan(self) -> None:
        """Look when the next check is due."""
        now = self._shard.now()
        due_ms = self._schedule.wait_ms(now.wall_ms)
        if due_ms is None or self._is_asking:
            self.look_ms = NEVER_MS
            return
        pause_ms = FAILED_PAUSE_MS if self._has_failed else PAUSE_MS
        wait_ms = min(max(pause_ms, due_ms), LOOK_MS_MAX)
        self.look_ms = min(self.look_ms, now.loop_ms + wait_ms)

    # ---------------------------------------------------------------- asking

    def look(self) -> None:
        """Ask about what is due."""
        self.look_ms = NEVER_MS
        checker = self._checks.checker
        if checker is None:
            return
        if self._schedule.wait_ms(self._shard.now().wall_ms) == 0 and not self._is_asking:
            self._is_asking = True
            self._spawn(self._ask(checker))
        else:
            self._plan()

    async def _ask(self, checker: TransactionChecker) -> None:
        try:
            await self._check(checker)
        finally:
            self._is_asking = False
            self._plan()
            self._shard.arm()

    async def _check(self, checker: TransactionChecker) -> None:
        metrics = self._metrics
        checks = _Round(self._shard, self._checks, lambda: self._schedule)
        try:
            answers = await checker.ask(self._checks.policy, checks)
        except (BmqError, StoreError) as error:
            metrics.checks_failed += len(checks.taken)
            if not self._has_failed:
                self._has_failed = True
                _log.warning("transactions_not_checked", shard=self._shard.number, reason=str(error) or repr(error))
            return
        self._has_failed = False
        metrics.checks += len(checks.taken) - len(answers.not_asked)
        metrics.checks_failed += len(answers.not_asked)
        checks.left_undecided(answers.left_undecided)
        appended = []
        for transactional_id, is_commit in answers.decided.items():
            asked = checks.taken.get(transactional_id)
            done = None if asked is None else await self._settle(transactional_id, asked.value, is_commit)
            if asked is not None and done is not None:
                done.add_done_callback(partial(self._settled, transactional_id, asked.value, is_commit))
                appended.append(done)
        if appended:
            await asyncio.wait(appended)

    async def _settle(
        self, transactional_id: str, value: TransactionValue, is_commit: bool
    ) -> asyncio.Future[int] | None:
        try:
            done = await self._shard.settle(transactional_id, value, is_commit)
        except BmqError as error:  # the next check asks again
            _log.warning("transaction_not_settled", id=transactional_id, reason=str(error))
            return None
        if done is None:
            _log.info("transaction_check_too_late", id=transactional_id, is_commit=is_commit)
        return done

    def _settled(
        self, transactional_id: str, value: TransactionValue, is_commit: bool, done: asyncio.Future[int]
    ) -> None:
        if done.cancelled() or done.exception() is not None:
            return  # the next check asks again
        if is_commit:
            self._metrics.committed_by_check += 1
        else:
            self._metrics.aborted_by_check += 1
        _log.info(
            "transaction_settled_by_check",
            id=transactional_id,
            producer_id=value.producer_id,
            producer_epoch=value.producer_epoch,
            is_commit=is_commit,
        )


class _Taken(NamedTuple):
    """`value`: the state that is asked about."""

    value: TransactionValue
    check: TransactionCheck


class _Round:
    """Implements CheckRound. It tells the schedule that it took its checks from, and no later one, which counts them anew."""

    def __init__(self, shard: CheckedShard, checks: Checks, schedule: Callable[[], TransactionCheckSchedule]) -> None:
        self.taken: dict[str, _Taken] = {}
        self._shard = shard
        self._checks = checks
        self._current_schedule = schedule
        self._schedule = schedule()

    async def take(self) -> list[TransactionCheck]:
        """The due checks. First this owner proves that it was not replaced: a replaced owner would ask about ended transactions (rule 15)."""
        await self._shard.prove()
        policy, self._schedule = self._checks.policy, self._current_schedule()
        for due in self._schedule.take(self._shard.now().wall_ms, CHECKS_MAX, policy.interval_ms):
            value = self._shard.value_of(due.transactional_id)
            if value is None or not is_asked_about(policy, due.transactional_id, value):
                continue
            name, partitions = name_of(value), id_partitions(policy, value)
            check = TransactionCheck(due.transactional_id, name, value.timeout_ms, due.number, partitions)
            self.taken[due.transactional_id] = _Taken(value, check)
        return [one.check for one in self.taken.values()]

    def asked(self, checks: Iterable[TransactionCheck]) -> None:
        """As CheckRound.asked."""
        loop_ms = self._shard.now().loop_ms
        for one in checks:
            self._schedule.asked(one.transactional_id, one.name, one.number, loop_ms)

    def left_undecided(self, transactional_ids: Iterable[str]) -> None:
        """As CheckRound.left_undecided. Also of those that were answered so."""
        for transactional_id in transactional_ids:
            if transactional_id in self.taken:
                check = self.taken[transactional_id].check
                self._schedule.left_undecided(transactional_id, check.name, check.number)
