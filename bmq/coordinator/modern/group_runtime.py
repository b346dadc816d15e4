"""The groups of one kind in one shard: runs decisions, writes their records, replays them, and answers.

A group changes only when a record is replayed, so a decision has to see what earlier ones wrote. At most one append per
group is in flight. Requests that come meanwhile wait; then they are all decided in order, each on the draft of the one
before (group_draft.py), and written in one append: a thousand members that join at once wait for two or three appends,
not a thousand. Groups do not wait for each other.

A heartbeat that would change nothing is answered at once from the durable state, even if an append is in flight, as if
it had come before it. Decisions that fail or write keep the order, and so do all of a member that the append removes:
it missed its deadline, and what it has is given to others as soon as the append is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

import structlog

from bmq.coordinator.classic.group import Group
from bmq.coordinator.config import CoordinatorConfig
from bmq.coordinator.modern.cached_responses import CachedResponses, RequestKey
from bmq.coordinator.modern.group_draft import EncodedRecord, GroupDraft, NotToBeWritten
from bmq.coordinator.modern.member_timers import NOBODY, Due, GroupTimers, TimerKind, TimerOrder
from bmq.coordinator.runtime.moment import Moment
from bmq.coordinator.runtime.recent_proof import PROOF_RENEWAL_AGE_MS, sessions_from_ms
from bmq.coordinator.runtime.wake_ups import WakeUps
from bmq.coordinator.topics import CurrentTopics, TopicChanges
from bmq.dataclass import dataclass
from bmq.log.state_log import StateLog
from bmq.protocol.codec import encode
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.record_types import EpochKey, MemberKey, RecordTypes, TargetEpochKey, TargetEpochValue

_log = structlog.get_logger("bmq.coordinator")

APPEND_BYTES_MAX: Final = 512 * 1024
"""Decisions beyond this size wait for the next append."""
DECISIONS_PER_APPEND_MAX: Final = 64
"""Likewise for their count: with a thousand members and ten thousand partitions each takes up to half a millisecond."""


class RunGroup(Protocol):
    """A group of a new protocol, as GroupRuntime uses it."""

    group_id: str

    @property
    def exists(self) -> bool:
        """Whether the group has its own record, not only records of members."""

    @property
    def members(self) -> Mapping[str, Any]: ...
    def is_subscribed_to(self, topic: str) -> bool: ...
    def drop_leftovers(self) -> None:
        """Call once all records were replayed: drop what belongs to members that are gone."""

    def apply(self, key: Any, value: Any) -> None: ...
    def fork(self) -> Self: ...
    def tombstones(self) -> Any: ...


class Host(Protocol):
    """The shard that holds the groups."""

    @property
    def number(self) -> int: ...
    @property
    def is_lost(self) -> bool: ...
    @property
    def state_log(self) -> StateLog: ...
    def is_proven(self, asked_ms: float) -> bool: ...

    def elapsed_ms(self) -> float: ...
    def append(self, records: Sequence[EncodedRecord]) -> asyncio.Future[int]: ...
    def now(self) -> Moment: ...
    def arm(self) -> None: ...
    def fail(self, error: BaseException) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, None]) -> None: ...
    def classic_group(self, group_id: str) -> Group | None: ...
    def is_taken(self, group_id: str, kind: str) -> bool:
        """Whether a group of another new protocol has this id."""

    def is_written_elsewhere(self, group_id: str, kind: str) -> bool:
        """Whether records of another kind of group with this id are in flight; `settled` tells when they no longer
        are."""

    def settled(self, group_id: str, kind: str) -> None:
        """No record of this id and kind is in flight any more."""

    def classic_replaced(self, group_id: str) -> None:
        """A group of a new protocol replaced the classic group: waiting members have to rejoin."""

    def rebalance_classic(self, group_id: str) -> None:
        """A consumer group has just become a classic one: its members have to rejoin."""


class Counts(Protocol):
    """The metrics that this module counts."""

    rebalances: int
    expired_members: int


@dataclass(slots=True)
class Volatile:
    """State that is not in the log. `changes`: count of the group's topic changes; `changes_seen`: those it has seen.

    `responses`: those to heartbeats that changed nothing.
    """

    timers: GroupTimers = field(default_factory=GroupTimers)
    responses: CachedResponses = field(default_factory=CachedResponses)
    changes: int = 1
    changes_seen: int = 0


T = TypeVar("T")
G = TypeVar("G", bound=RunGroup)
D = TypeVar("D", bound=GroupDraft[Any, Any, Any])
S = TypeVar("S")
M = TypeVar("M", bound=Volatile)
Decide = Callable[[D, S], T]
"""Decides on a draft; if it raises KafkaError nothing is written."""


@dataclass(slots=True)
class _Asked:
    decide: Decide[Any, Any, Any]
    answer: asyncio.Future[Any]


@dataclass(slots=True)
class _Decided:
    """`changes_seen`: the count of topic changes it had seen; -1: it did not compare the topics."""

    answer: asyncio.Future[Any] | None
    outcome: Any = None
    error: KafkaError | None = None
    timers: Sequence[TimerOrder] = ()
    changes_seen: int = -1
    rebalances: bool = False


@dataclass(slots=True)
class _Turn:
    """`next_group`: the group as the records in flight make it; None: they leave no group of this kind."""

    waiting: deque[_Asked] = field(default_factory=deque)
    is_writing: bool = False
    next_group: RunGroup | None = None


class GroupRuntime(ABC, Generic[G, D, S, M]):
    """See the module. G: groups; D: their drafts; S: the other inputs of decisions; M: state that is not in the log."""

    kind: ClassVar[str]
    record_types: ClassVar[RecordTypes[Any, Any]]

    def __init__(self, host: Host, config: CoordinatorConfig, counts: Counts, image: CurrentTopics) -> None:
        self.groups: dict[str, G] = {}
        self._host = host
        self._counts = counts
        self._config = config
        self._image = image
        self._is_loading = True
        self._sessions_from_ms = 0.0
        self._turns: dict[str, _Turn] = {}
        self._volatile: dict[str, M] = {}
        self._wake_ups = WakeUps()
        self._loop = asyncio.get_running_loop()

    def reconfigure(self, config: CoordinatorConfig) -> None:
        """Use it for all later decisions."""
        self._config = config
        for volatile in self._volatile.values():
            volatile.responses.clear()

    # ---------------------------------------------------------------- what kinds differ in

    @abstractmethod
    def _new_group(self, group_id: str) -> G:
        """An empty group."""

    @abstractmethod
    def _draft(
        self, group_id: str, group: G | None, classic: Group | None, *, is_taken: bool, may_write: bool
    ) -> D: ...

    @abstractmethod
    def _group_context(self, group_id: str, volatile: M, now: Moment) -> S:
        """Everything a decision depends on besides the group."""

    @abstractmethod
    def _new_volatile(self) -> M: ...

    @abstractmethod
    def _first_timers(self, group: G) -> Iterable[TimerOrder]:
        """The timers to start after the log was replayed; every wait begins anew.

        Only sessions are renewed without a record, so only they have to outlast a former owner (rule 34).
        """

    @abstractmethod
    def _session_timeout_ms(self, group_id: str) -> int: ...

    @abstractmethod
    def _expire_due(self, draft: D, due: Due, context: S) -> bool:
        """A member missed a deadline; returns whether it was removed."""

    def _decided_on(self, draft: D, volatile: M) -> None:
        """Called after a decision, to keep what later ones need besides the records."""
        if draft.cacheable is not None and self.groups.get(draft.group_id) is draft.group:  # nothing was written
            key, api_key, response = draft.cacheable
            body = encode("response", api_key, key.api_version, response)
            configs = self._image().group_configs
            volatile.responses.put(key, body, tuple(draft.timers), configs, len(draft.existing.members))

    # ---------------------------------------------------------------- life

    def begin(self) -> None:
        """All records were replayed: start every session anew, from when a former owner can no longer renew it."""
        self._is_loading = False
        loop_ms = self._host.now().loop_ms
        self._sessions_from_ms = sessions_from_ms(loop_ms)
        for group_id in [group_id for group_id, group in self.groups.items() if not group.exists]:
            _log.warning("group_without_epoch", shard=self._host.number, kind=self.kind, group=group_id)
            del self.groups[group_id]
        for group in self.groups.values():
            group.drop_leftovers()
            for order in tuple(self._first_timers(group)):
                from_ms = self._sessions_from_ms if order.kind is TimerKind.SESSION else loop_ms
                self._apply_timers(group.group_id, (order,), from_ms)

    def unload(self, error: ErrorCode) -> None:
        """The shard is gone: fail all waiting requests."""
        turns, self._turns = self._turns, {}
        for turn in turns.values():
            for asked in turn.waiting:
                _fail(asked.answer, KafkaError(error))
        self.groups = {}
        self._volatile = {}

    @property
    def size(self) -> int:
        """Number of groups and members."""
        return sum(1 + len(group.members) for group in self.groups.values())

    def copied(self) -> list[G]:
        """Copies of all groups; later changes do not show in them."""
        return [group.fork() for group in self.groups.values()]

    def find(self, group_id: str) -> G | None:
        group = self.groups.get(group_id)
        return group if group is not None and group.exists else None

    def is_writing(self, group_id: str) -> bool:
        """Whether records of this id are in flight."""
        turn = self._turns.get(group_id)
        return turn is not None and turn.is_writing

    def _is_being_removed(self, group_id: str, member_id: str) -> bool:
        """Whether the records in flight leave no such member in the group."""
        turn = self._turns.get(group_id)
        if turn is None or not turn.is_writing:
            return False
        return turn.next_group is None or member_id not in turn.next_group.members

    def timers_of(self, group_id: str) -> GroupTimers | None:
        """The timers of the group's members; None: none was ever started."""
        volatile = self._volatile.get(group_id)
        return None if volatile is None else volatile.timers

    def concerns(self, group_id: str) -> bool:
        """Whether a group of this id and kind exists, or a decision under way may create one."""
        return group_id in self.groups or group_id in self._turns

    # ---------------------------------------------------------------- decisions

    async def decide(self, group_id: str, decide: Decide[D, S, T], *, overtaking: str | None = None) -> T:
        """Decide, and return the answer once its records are durable.

        `overtaking`: the member to answer; an answer that needs no records does not wait for appends in flight, unless
        they remove the member. Raises KafkaError from `decide` or from the append.
        """
        turn = self._turns.get(group_id)
        if turn is None and not self._host.is_written_elsewhere(group_id, self.kind):
            return await self._decide_first(group_id, decide)
        if overtaking is not None and group_id in self.groups and not self._is_being_removed(group_id, overtaking):
            with contextlib.suppress(NotToBeWritten):
                _, decided = self._decided(group_id, None, decide, self._durable(group_id), may_write=False)
                if decided.error is None:
                    self._carry_out(group_id, decided)
                    outcome: T = decided.outcome
                    return outcome
        answer: asyncio.Future[T] = self._loop.create_future()
        self._turns.setdefault(group_id, _Turn()).waiting.append(_Asked(decide, answer))
        return await answer

    async def _decide_first(self, group_id: str, decide: Decide[D, S, T]) -> T:
        draft, decided = self._decided(group_id, None, decide, self._durable(group_id))
        if draft.records and decided.error is None:
            waiting: asyncio.Future[T] = self._loop.create_future()
            decided.answer = waiting
            turn = self._turns[group_id] = _Turn()
            self._write(group_id, turn, draft, draft.records, [decided])
            return await waiting
        if decided.error is not None:
            raise decided.error
        self._carry_out(group_id, decided)
        outcome: T = decided.outcome
        return outcome

    def query(self, group_id: str, decide: Decide[D, S, T]) -> T:
        """Answer from the durable state; `decide` must not write. Raises KafkaError."""
        _, decided = self._decided(group_id, None, decide, self._durable(group_id), may_write=False)
        if decided.error is not None:
            raise decided.error
        self._carry_out(group_id, decided)
        outcome: T = decided.outcome
        return outcome

    def cached_response(self, group_id: str, key: RequestKey) -> bytes | None:
        """The body of an earlier response to this heartbeat, with its timers renewed, if nothing has changed since and the
        shard is proven ours. None: `decide` has to answer.
        """
        volatile = self._volatile.get(group_id)
        if volatile is None or volatile.changes != volatile.changes_seen:
            return None
        found = volatile.responses.get(key, self._image().group_configs)
        if found is None:
            return None
        body, timers = found
        if any(self._is_being_removed(group_id, order.member_id) for order in timers):
            return None
        host = self._host
        asked_ms = host.elapsed_ms()
        if asked_ms - host.state_log.proven_ms >= PROOF_RENEWAL_AGE_MS and not host.is_proven(asked_ms):
            return None  # it has to wait for a proof (rule 34)
        self._apply_timers(group_id, timers, self._loop.time() * 1000)
        return body

    def settled_elsewhere(self, group_id: str) -> None:
        """Records of another kind with this id are no longer in flight."""
        turn = self._turns.get(group_id)
        if turn is not None and not turn.is_writing and not self._host.is_written_elsewhere(group_id, self.kind):
            self._go_on(group_id, turn)

    def _go_on(self, group_id: str, turn: _Turn) -> None:
        """Decide the waiting requests in order, up to one append."""
        draft = self._durable(group_id)
        written: list[EncodedRecord] = []
        done: list[_Decided] = []
        size_bytes = 0
        while turn.waiting and not draft.is_last:
            if size_bytes >= APPEND_BYTES_MAX or (written and len(done) >= DECISIONS_PER_APPEND_MAX):
                break
            asked = turn.waiting.popleft()
            if asked.answer.done():
                continue  # its client is gone
            after, decided = self._decided(group_id, asked.answer, asked.decide, draft)
            done.append(decided)
            if decided.error is None:
                draft = after
                written += after.records
                size_bytes += sum(len(key) + len(value or b"") for key, value in after.records)
        if written:
            self._write(group_id, turn, draft, written, done)
            return
        self._turns.pop(group_id, None)  # nothing written, so the loop did not stop early and nobody waits
        for decided in done:
            self._settle(group_id, decided, None)

    def _durable(self, group_id: str) -> D:
        group = self.find(group_id)
        classic = None if group is not None else self._host.classic_group(group_id)
        is_taken = self._host.is_taken(group_id, self.kind)
        return self._draft(group_id, group, classic, is_taken=is_taken, may_write=True)

    def _decided(
        self,
        group_id: str,
        answer: asyncio.Future[Any] | None,
        decide: Decide[D, S, Any],
        base: D,
        *,
        may_write: bool = True,
    ) -> tuple[D, _Decided]:
        """One decision on top of `base`; its timers start now, and again once it is durable.

        A time to give partitions back ends only once that is durable: the member may never say it again.
        Raises NotToBeWritten, unless `may_write`.
        """
        volatile = self._volatile.get(group_id)
        draft = self._draft(group_id, base.group, base.classic, is_taken=base.is_taken, may_write=may_write)
        now = self._host.now()
        context = self._group_context(group_id, volatile or self._new_volatile(), now)
        decided = _Decided(answer)
        try:
            decided.outcome = decide(draft, context)
        except KafkaError as error:
            decided.error = error
            return draft, decided
        except NotToBeWritten:
            raise
        except Exception as error:  # noqa: BLE001 nothing has changed: the other decisions go on
            _log.exception("group_not_decided", shard=self._host.number, kind=self.kind, group=group_id)
            decided.error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, repr(error))
            return draft, decided
        decided.timers = draft.timers
        decided.rebalances = draft.rebalances
        if draft.is_refreshed:
            decided.changes_seen = (volatile or self._new_volatile()).changes
        started = [
            order for order in draft.timers if order.kind is not TimerKind.REBALANCE or order.timeout_ms is not None
        ]
        self._apply_timers(group_id, started, now.loop_ms)
        if draft.group is not None:
            self._decided_on(draft, self._volatile_of(group_id))
        return draft, decided

    def _write(
        self, group_id: str, turn: _Turn, draft: D, written: Sequence[EncodedRecord], done: Sequence[_Decided]
    ) -> None:
        """`draft`: that of the last decision, with the effect of all that is `written`."""
        turn.is_writing = True
        turn.next_group = draft.group
        appended = self._host.append(written)

        def finish(appended: asyncio.Future[int]) -> None:
            stopped = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            error = stopped if appended.cancelled() else appended.exception()
            failure = error if isinstance(error, KafkaError) else None
            if error is not None and failure is None:
                failure = KafkaError(
                    error.code if isinstance(error, BmqError) else ErrorCode.UNKNOWN_SERVER_ERROR, str(error)
                )
            try:
                turn.is_writing = False
                turn.next_group = None
                for decided in done:
                    self._settle(group_id, decided, failure)
                is_ours = self._turns.get(group_id) is turn
                if is_ours and not self._host.is_written_elsewhere(group_id, self.kind):
                    self._go_on(group_id, turn)
                if not turn.is_writing:
                    self._host.settled(group_id, self.kind)
            except Exception as bug:  # noqa: BLE001 any bug is answered or logged
                self._host.fail(bug)

        appended.add_done_callback(finish)

    def _settle(self, group_id: str, decided: _Decided, error: KafkaError | None) -> None:
        failure = error or decided.error
        is_applied = error is None or error.code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        if is_applied and decided.error is None and not self._host.is_lost:
            self._carry_out(group_id, decided)
        if failure is not None:
            _fail(decided.answer, failure)
        elif decided.answer is not None and not decided.answer.done():
            decided.answer.set_result(decided.outcome)

    def _carry_out(self, group_id: str, decided: _Decided) -> None:
        """Perform a decision's effects other than its records, which are durable now."""
        if group_id in self.groups:
            self._apply_timers(group_id, decided.timers, self._host.now().loop_ms)
            if decided.changes_seen >= 0:
                volatile = self._volatile_of(group_id)
                volatile.changes_seen = max(volatile.changes_seen, decided.changes_seen)
        if decided.rebalances:
            self._host.rebalance_classic(group_id)

    # ---------------------------------------------------------------- the log

    def replay(self, encoded_key: bytes, encoded_value: bytes | None) -> None:
        """Apply a durable record. Raises MalformedMessage."""
        key = self.record_types.decode_key(encoded_key)
        value = self.record_types.decode_value(key, encoded_value)
        group = self.groups.get(key.group)
        if group is None:
            if value is None:
                return  # a tombstone of a group that is gone
            group = self.groups[key.group] = self._new_group(key.group)
        if value is None and not self._is_loading:
            self._removing(group, key)
        group.apply(key, value)
        if (volatile := self._volatile.get(key.group)) is not None:
            volatile.responses.clear()
        match key, value:
            case EpochKey(), None:
                self.drop(key.group)
            case EpochKey(), _:
                self._host.classic_replaced(key.group)
            case MemberKey(member_id=member_id), None if key.group in self._volatile:
                self._volatile[key.group].timers.forget(member_id)
            case TargetEpochKey(), TargetEpochValue() if not self._is_loading:
                self._counts.rebalances += 1

    def _removing(self, group: G, key: Any) -> None:
        """A durable record removes a part of the group, which still has it."""

    def drop(self, group_id: str) -> None:
        """The group was deleted, or is of another kind now."""
        self.groups.pop(group_id, None)
        self._volatile.pop(group_id, None)
        self._wake_ups.forget(group_id)

    # ---------------------------------------------------------------- topics

    def topics_changed(self, changes: TopicChanges) -> None:
        """Subscribed groups compare their topics with the next heartbeat."""
        for group_id, group in self.groups.items():
            if any(group.is_subscribed_to(name) for name in changes.names):
                self._volatile_of(group_id).changes += 1

    # ---------------------------------------------------------------- time

    @property
    def wake_ms(self) -> float:
        return self._wake_ups.next_ms

    def tick(self, now: Moment) -> None:
        for group_id in self._wake_ups.due(now.loop_ms):
            volatile = self._volatile.get(group_id)
            if volatile is None:
                continue
            for due in volatile.timers.due(now.loop_ms):
                self._host.spawn(self._expire(group_id, due, volatile))
            if group_id not in self.groups and group_id not in self._turns:
                del self._volatile[group_id]  # of a group that was never written
            else:
                self._wake_ups.schedule(group_id, volatile.timers.wake_ms)

    def after_stall(self) -> None:
        loop_ms = self._host.now().loop_ms
        for volatile in self._volatile.values():
            volatile.timers.after_stall(loop_ms)

    async def _expire(self, group_id: str, due: Due, volatile: M) -> None:
        def decide(draft: D, context: S) -> bool:
            # A heartbeat decided before this has restarted the timer; a JoinGroup may have stopped it.
            return volatile.timers.is_due(due) and self._expire_due(draft, due, context)

        try:
            is_removed = await self.decide(group_id, decide)
            volatile.timers.handled(due)
            if is_removed:
                self._counts.expired_members += 1
                _log.info("group_members_expired", group=group_id, member=due.member_id, did_not=due.kind.value)
        except KafkaError as error:
            # Keep the member and try again when its timer is over: the log takes no records now.
            _log.warning("group_member_not_expired", group=group_id, member=due.member_id, error=str(error))
            volatile.timers.handled(due)
            is_there = not self._host.is_lost and group_id in self.groups
            if is_there and due.member_id != NOBODY:
                timeout_ms = self._session_timeout_ms(group_id)
                order = TimerOrder(due.kind, due.member_id, timeout_ms, due.epoch, keeps=True)
                self._apply_timers(group_id, [order], self._host.now().loop_ms)

    def _apply_timers(self, group_id: str, orders: Sequence[TimerOrder], loop_ms: float) -> None:
        if not orders:
            return
        timers = self._volatile_of(group_id).timers
        # After its first heartbeat here a member may still turn to the former owner, so only extend its session.
        is_early = loop_ms < self._sessions_from_ms
        for order in orders:
            if is_early and order.kind is TimerKind.SESSION:
                timers.extend(order, loop_ms)
            else:
                timers.apply(order, loop_ms)
        if self._wake_ups.schedule(group_id, timers.wake_ms):
            self._host.arm()

    # ---------------------------------------------------------------- inside

    def _volatile_of(self, group_id: str) -> M:
        volatile = self._volatile.get(group_id)
        if volatile is None:
            volatile = self._volatile[group_id] = self._new_volatile()
        return volatile


def _fail(answer: asyncio.Future[Any] | None, error: KafkaError) -> None:
    if answer is not None and not answer.done():
        answer.set_exception(error)
