"""Which open transactions are asked back about before they are aborted, when, and what an answer does. Pure.

A transaction whose client died after the commit of its database, and before that of the transaction, is aborted by its time-out
although it counts. For ids that opted in its application is asked first. The checks begin `before_ms` ahead of the time-out, one follows the other
after `interval_ms`, and the first answer ends it. Without an answer it is aborted, at its time-out or `extra_ms` later.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bmq.coordinator.transactions.transaction import (
    CONCURRENT,
    MAX_EPOCH,
    Outcome,
    Producer,
    ended_as,
    settle_by_check,
)
from bmq.dataclass import dataclass
from bmq.log.due_times import DueTimes
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.transaction_records import NO_PRODUCER_ID, TransactionStatus, TransactionValue

RESTART_WAIT_MS: Final = 10_000
"""How long a new instance of the producer waits, once the application was asked, before the last one's transaction is aborted."""
RESTART_ASK_MAX_MS: Final = 30_000
"""How long it waits for the question. Both together are less than the minute for which Java's clients begin."""
RESTART_SILENCE_MAX_MS: Final = 10_000
"""An instance that has asked for nothing for so long has given up: the next one waits anew."""
ASK_AGAIN_MS: Final = 1_000
"""While a new instance waits for the question, it is tried so often, as far as the instance repeats its request."""
ANSWERED_BYTES_MAX: Final = 60 * 1024
"""Of transactional ids in one request, as its answer may have them: less than what is read of an answer."""
_ESCAPED_BYTES: Final = 6
"""Of one byte as `\\u0001`."""
_AROUND_ID_BYTES: Final = 16
"""Quotes, a comma, a line's end and its indentation."""


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


def answer_bytes_max(transactional_id: str) -> int:
    """Of an id in an answer, however its JSON is written."""
    return _ESCAPED_BYTES * len(transactional_id.encode("utf-8", "surrogatepass")) + _AROUND_ID_BYTES


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
    """`number`: 1 and up, of those that this owner of the shard has taken."""

    transactional_id: str
    number: int


@dataclass(slots=True)
class _Restart:
    """A new instance of the producer waits. `first_number`: of the first check that was taken since. `tried_ms`: since when a check
    is wanted at once. Times of the loop's clock.
    """

    first_number: int
    since_ms: float
    last_request_ms: float
    tried_ms: float
    asked_ms: float | None = None
    is_left_undecided: bool = False

    def is_over(self, now_ms: float) -> bool:
        """Whether it has given up: a client that waits repeats its request."""
        return now_ms - self.last_request_ms > RESTART_SILENCE_MAX_MS

    def has_to_wait(self, now_ms: float) -> bool:
        if self.is_left_undecided:
            return False
        if self.asked_ms is None:
            return now_ms < self.since_ms + RESTART_ASK_MAX_MS
        return now_ms < self.asked_ms + RESTART_WAIT_MS

    def is_to_be_tried(self, now_ms: float) -> bool:
        """Whether the check that was taken may have found no way out."""
        return self.asked_ms is None and now_ms >= self.tried_ms + ASK_AGAIN_MS


class _Scheduled:
    """`restart`: None: no new instance of the producer waits."""

    __slots__ = ("made", "name", "restart")

    def __init__(self, name: TransactionName) -> None:
        self.name = name
        self.made = 0
        self.restart: _Restart | None = None


class TransactionCheckSchedule:
    """The next check of each open transaction of one shard that is asked about.

    Checks are due by the wall clock, as time-outs are. A new instance of a producer is asked about at once and waits by the loop's clock, which
    nobody sets.
    """

    def __init__(self) -> None:
        self._scheduled: dict[str, _Scheduled] = {}
        self._times: DueTimes[str] = DueTimes()
        self._at_once: dict[str, None] = {}
        """Transactional ids that are asked about next, because a new instance waits; in order."""
        self._was_at_once = False
        """Whether the last check that was taken is one of them."""

    def __len__(self) -> int:
        return len(self._scheduled)

    def wait_ms(self, now_ms: int) -> int | None:
        """Until the next check is due, by the wall clock; 0: one is. None without one."""
        if self._at_once:
            return 0
        next_ms = self._times.next_ms
        return None if next_ms is None else max(0, next_ms - now_ms)

    def add(self, transactional_id: str, name: TransactionName, at_ms: int) -> None:
        """Ask about it from then on (wall time). A transaction that is here already is left as it is."""
        scheduled = self._scheduled.get(transactional_id)
        if scheduled is None or scheduled.name != name:
            self._scheduled[transactional_id] = _Scheduled(name)
            self._times.set(transactional_id, at_ms)
            self._at_once.pop(transactional_id, None)

    def forget(self, transactional_id: str) -> None:
        """Remove a transaction, because it has ended."""
        self._scheduled.pop(transactional_id, None)
        self._times.forget(transactional_id)
        self._at_once.pop(transactional_id, None)

    def take(self, now_ms: int, count_max: int, interval_ms: int) -> list[DueCheck]:
        """Take due checks, `count_max` at most and no more than one answer holds, and schedule each transaction's next one an interval
        later. `now_ms`: wall time.
        """
        taken: list[DueCheck] = []
        size_bytes = 0
        while len(taken) < count_max:
            due = self._times.due(now_ms)
            # By turns: however many producers are started again, others are asked about in time.
            is_at_once = bool(self._at_once) and (due is None or not self._was_at_once)
            if is_at_once:
                due = next(iter(self._at_once))
            if due is None:
                break
            size_bytes += answer_bytes_max(due)
            if taken and size_bytes > ANSWERED_BYTES_MAX:
                break
            if is_at_once:
                self._times.set(due, now_ms + interval_ms)
            else:
                self._times.take(now_ms, 1, interval_ms)
            self._at_once.pop(due, None)
            self._was_at_once = is_at_once
            one = self._scheduled[due]
            one.made += 1
            taken.append(DueCheck(due, one.made))
        return taken

    # ---------------------------------------------------------------- a new instance of the producer

    def hold_back(self, transactional_id: str, now_ms: float) -> bool:
        """Whether a new instance has to wait before it aborts this transaction. The first time it is asked about at once, and
        again each second until it was.

        `now_ms` here and below: of the loop's clock.
        """
        one = self._scheduled.get(transactional_id)
        if one is None:
            return False
        restart = one.restart
        if restart is None or restart.is_over(now_ms):
            restart = one.restart = _Restart(one.made + 1, now_ms, now_ms, now_ms)
            self._at_once[transactional_id] = None
        restart.last_request_ms = now_ms
        has_to_wait = restart.has_to_wait(now_ms)
        if has_to_wait and restart.is_to_be_tried(now_ms):
            restart.tried_ms = now_ms
            self._at_once[transactional_id] = None
        return has_to_wait

    def asked(self, transactional_id: str, name: TransactionName, number: int, now_ms: float) -> None:
        """This check is on its way to the application, which gets its time from now on."""
        restart = self._restart_of(transactional_id, name, number)
        if restart is not None and restart.asked_ms is None:
            restart.asked_ms = now_ms
            self._at_once.pop(transactional_id, None)

    def left_undecided(self, transactional_id: str, name: TransactionName, number: int) -> None:
        """The answer to this check: a new instance that waits for it need not wait any longer."""
        restart = self._restart_of(transactional_id, name, number)
        if restart is not None:
            restart.is_left_undecided = True

    def _restart_of(self, transactional_id: str, name: TransactionName, number: int) -> _Restart | None:
        """The wait of a new instance for this check; None: the check was taken before the instance came, or is about another transaction."""
        one = self._scheduled.get(transactional_id)
        if one is None or one.name != name or one.restart is None or number < one.restart.first_number:
            return None
        return one.restart
