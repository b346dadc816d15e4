"""Which open transactions are asked back about before they are aborted, when, and what an answer does. Pure.

A transaction whose client died after the commit of its database, and before that of the transaction, is aborted by its time-out
although it counts. For ids that opted in its application is asked first. The checks begin `before_ms` ahead of the time-out, one follows the other
after `interval_ms`, and the first answer ends it. Without an answer it is aborted, at its time-out or `extra_ms` later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from bmq.coordinator.transactions.transaction import (
    CONCURRENT,
    MAX_EPOCH,
    Outcome,
    Producer,
    ended_as,
    settle_by_check,
)
from bmq.log.due_times import DueTimes
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.transaction_records import NO_PRODUCER_ID, TransactionStatus, TransactionValue

RESTART_WAIT_MS: Final = 10_000
"""How long a new instance of the producer waits for the outcome of the last one's transaction, before it is aborted."""


@dataclass(frozen=True, slots=True)
class CheckPolicy:
    """`url`, `topic`: where checks go, one of them at most. `id_topic`: only transactions with a record in this topic are
    asked about; empty: all.
    """

    id_prefixes: tuple[str, ...] = ()
    url: str = ""
    topic: str = ""
    id_topic: str = ""
    before_ms: int = 30_000
    interval_ms: int = 5_000
    extra_ms: int = 0

    @property
    def is_on(self) -> bool:
        return bool(self.id_prefixes and (self.url or self.topic))


NO_CHECKS: Final = CheckPolicy()


class TransactionName(NamedTuple):
    """One transaction of an id. A producer with one epoch has one after another, so its start belongs to it."""

    producer_id: int
    producer_epoch: int
    start_ms: int


def name_of(value: TransactionValue) -> TransactionName:
    return TransactionName(value.producer_id, value.producer_epoch, value.start_ms)


def is_asked_about(policy: CheckPolicy, transactional_id: str, value: TransactionValue) -> bool:
    """Whether it is open, and its id has opted in."""
    if (
        value.status != TransactionStatus.ONGOING
        or not policy.is_on
        or not transactional_id.startswith(policy.id_prefixes)
    ):
        return False
    return not policy.id_topic or bool(id_partitions(policy, value))


def id_partitions(policy: CheckPolicy, value: TransactionValue) -> tuple[int, ...]:
    """Where the record with its check id may be."""
    return tuple(
        number for one in value.partitions or () if one.topic == policy.id_topic for number in one.partition_ids
    )


def first_check_ms(policy: CheckPolicy, value: TransactionValue) -> int:
    """Wall time. Not in the first half of its time: its client is at work."""
    return value.start_ms + max(value.timeout_ms - policy.before_ms, value.timeout_ms // 2)


# ---------------------------------------------------------------- what an answer does


def decide(
    value: TransactionValue | None,
    is_pending: bool,
    name: TransactionName,
    is_commit: bool,
    now_ms: int,
    fresh_producer_id: int = NO_PRODUCER_ID,
    last_epoch: int = MAX_EPOCH,
) -> Outcome:
    """End the transaction with this name, and no other one. NONE without a record: it has ended so before.

    INVALID_TXN_STATE: it has ended otherwise. INVALID_PRODUCER_ID_MAPPING: it is not the id's last one.
    """
    if value is None:
        return Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if value.status == TransactionStatus.ONGOING and name_of(value) == name:
        return CONCURRENT if is_pending else settle_by_check(value, is_commit, now_ms, fresh_producer_id, last_epoch)
    was_committed = ended_as(value, Producer(name.producer_id, name.producer_epoch), name.start_ms, last_epoch)
    if was_committed is None:
        return Outcome(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return Outcome() if was_committed == is_commit else Outcome(ErrorCode.INVALID_TXN_STATE)


# ---------------------------------------------------------------- when


class DueCheck(NamedTuple):
    """`number`: 1 and up, of those that this owner of the shard has asked."""

    transactional_id: str
    number: int


class _Scheduled:
    """`restart_until_ms`: so long a new instance of the producer waits; None: there is none."""

    __slots__ = ("is_asked_since_restart", "made", "name", "restart_until_ms")

    def __init__(self, name: TransactionName) -> None:
        self.name = name
        self.made = 0
        self.restart_until_ms: int | None = None
        self.is_asked_since_restart = False


class TransactionCheckSchedule:
    """The next check of each open transaction of one shard that is asked about. Times are wall times."""

    def __init__(self) -> None:
        self._scheduled: dict[str, _Scheduled] = {}
        self._times: DueTimes[str] = DueTimes()

    def __len__(self) -> int:
        return len(self._scheduled)

    @property
    def next_ms(self) -> int | None:
        """When the next check is due; None without one."""
        return self._times.next_ms

    def add(self, transactional_id: str, name: TransactionName, at_ms: int) -> None:
        """Ask about it from then on. A transaction that is here already is left as it is."""
        scheduled = self._scheduled.get(transactional_id)
        if scheduled is None or scheduled.name != name:
            self._scheduled[transactional_id] = _Scheduled(name)
            self._times.set(transactional_id, at_ms)

    def forget(self, transactional_id: str) -> None:
        """Remove a transaction, because it has ended."""
        self._scheduled.pop(transactional_id, None)
        self._times.forget(transactional_id)

    def take(self, now_ms: int, count_max: int, interval_ms: int) -> list[DueCheck]:
        """Take due checks, `count_max` at most, and schedule each transaction's next one an interval later."""
        taken: list[DueCheck] = []
        for transactional_id in self._times.take(now_ms, count_max, interval_ms):
            one = self._scheduled[transactional_id]
            one.made += 1
            one.is_asked_since_restart = one.restart_until_ms is not None
            taken.append(DueCheck(transactional_id, one.made))
        return taken

    # ---------------------------------------------------------------- a new instance of the producer

    def hold_back(self, transactional_id: str, now_ms: int) -> bool:
        """Whether a new instance has to wait before it aborts this transaction. The first time it is asked about at once."""
        one = self._scheduled.get(transactional_id)
        if one is None:
            return False
        if one.restart_until_ms is None:
            one.restart_until_ms = now_ms + RESTART_WAIT_MS
            if self._times.of(transactional_id) > now_ms:
                self._times.set(transactional_id, now_ms)
        return now_ms < one.restart_until_ms

    def left_undecided(self, transactional_id: str, name: TransactionName) -> None:
        """The application has said so: a new instance that waits for that need not wait any longer."""
        one = self._scheduled.get(transactional_id)
        if one is not None and one.name == name and one.is_asked_since_restart:
            one.restart_until_ms = 0
