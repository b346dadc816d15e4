"""Why members of a group get nothing of a partition: reasons in words, out of what the cluster knows. Decisions only.

The first reason is the one to look at first. DELIVERABLE and BEHIND say that nothing in the cluster stops delivery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from bmq.coordinator.share_state.window import SPAN_MAX
from bmq.dataclass import dataclass
from bmq.protocol.share_state_messages import ExplainedPartition

UNKNOWN: Final = -1
_HOLDERS_SAID_MAX: Final = 3
_SETTLED_STATES: Final = frozenset(("Stable", "Empty", "Dead"))


class ReasonCode(StrEnum):
    """Stable words for programs."""

    PARTITION_OFFLINE = "partition_offline"
    STATE_UNAVAILABLE = "state_unavailable"
    NO_MEMBERS = "no_members"
    REBALANCING = "rebalancing"
    NOT_ASSIGNED = "not_assigned"
    NOT_INITIALIZED = "not_initialized"
    NOT_STARTED = "not_started"
    OTHER_MEMBER_ACTIVE = "other_member_active"
    WINDOW_FULL = "window_full"
    ALL_LOCKED = "all_locked"
    KEYS_WAITING = "keys_waiting"
    BACK_OFF = "back_off"
    DEAD_LETTERS = "dead_letters"
    TRANSACTION_OPEN = "transaction_open"
    NO_OFFSET = "no_offset"
    NOTHING_NEW = "nothing_new"
    DELIVERABLE = "deliverable"
    BEHIND = "behind"


class Reason(NamedTuple):
    code: ReasonCode
    text: str


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """The transaction that holds the last stable offset. `transactional_id`, `since_ms`: None if no coordinator knows it."""

    producer_id: int
    first_offset: int
    transactional_id: str | None = None
    since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class LogFacts:
    """`error`: why the partition's log cannot be asked; then the offsets are -1."""

    error: str | None = None
    start_offset: int = UNKNOWN
    high_watermark: int = UNKNOWN
    last_stable_offset: int = UNKNOWN
    transaction: OpenTransaction | None = None


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """`member_count`: of the group. `assigned`: ids of the members that have the partition; None: not known."""

    state: str
    member_count: int
    assigned: Sequence[str] | None = field(default=())


def share_reasons(
    group: GroupFacts,
    log: LogFacts,
    state: ExplainedPartition,
    *,
    is_committed: bool,
    is_single_active: bool,
    now_ms: int,
) -> list[Reason]:
    """Why members get nothing of a share partition. `is_committed`: they are given committed records only."""
    reasons = [*_of_log(log), *_of_members(group)]
    if state.error_code:
        reasons.append(Reason(ReasonCode.STATE_UNAVAILABLE, state.error_message or "the shard of its state is away"))
    elif state.state_epoch < 0:
        reasons.append(
            Reason(
                ReasonCode.NOT_INITIALIZED, "its state is not initialized; the next heartbeat of a member begins that"
            )
        )
    else:
        if is_single_active and group.assigned and state.active_member not in group.assigned:
            who = f"member {state.active_member}" if state.active_member else "no member"
            reasons.append(
                Reason(ReasonCode.OTHER_MEMBER_ACTIVE, f"its shard gives records to {who} until the next heartbeat")
            )
        if state.start_offset < 0:
            reasons.append(Reason(ReasonCode.NOT_STARTED, "no member has fetched from it yet"))
        elif not log.error:
            reasons += _of_records(log, state, is_committed=is_committed, now_ms=now_ms)
    return reasons


def consumer_reasons(group: GroupFacts, log: LogFacts, committed: int, *, now_ms: int) -> list[Reason]:
    """Why a consumer group gets nothing of a partition. `committed` -1: the group has committed no offset in it."""
    reasons = [*_of_log(log)]
    if group.member_count and group.state not in _SETTLED_STATES:
        reasons.append(Reason(ReasonCode.REBALANCING, f"the group is {group.state}: members are changing partitions"))
    reasons += _of_members(group)
    if log.error:
        return reasons
    if committed < 0:
        reasons.append(Reason(ReasonCode.NO_OFFSET, "no offset is committed; members begin by their auto.offset.reset"))
    elif committed >= log.high_watermark:
        reasons.append(Reason(ReasonCode.NOTHING_NEW, f"all is consumed up to {committed}"))
    elif committed >= log.last_stable_offset:
        reasons.append(_held(log, "members that read committed records wait", now_ms))
    else:
        reasons.append(
            Reason(ReasonCode.BEHIND, f"{log.high_watermark - committed} records from {committed} on can be fetched")
        )
    return reasons


def _of_log(log: LogFacts) -> Iterator[Reason]:
    if log.error:
        yield Reason(ReasonCode.PARTITION_OFFLINE, log.error)


def _of_members(group: GroupFacts) -> Iterator[Reason]:
    if not group.member_count:
        yield Reason(ReasonCode.NO_MEMBERS, "the group has no members")
    elif group.assigned is not None and not group.assigned:
        yield Reason(ReasonCode.NOT_ASSIGNED, "no member has it: none is subscribed to the topic, or heard of it yet")


def _of_records(log: LogFacts, state: ExplainedPartition, *, is_committed: bool, now_ms: int) -> Iterator[Reason]:
    end = log.last_stable_offset if is_committed else log.high_watermark
    first = max(state.first_available, log.start_offset)
    if state.locked_count + state.delayed_count >= state.locks_max:
        are = "are locked or in back-off" if state.delayed_count else "are locked"
        yield Reason(
            ReasonCode.WINDOW_FULL,
            f"{state.locked_count + state.delayed_count} of at most {state.locks_max} records {are}"
            f"{_holders(state, now_ms)}",
        )
    elif max(state.first_available, state.keys_read_to) >= state.start_offset + SPAN_MAX:
        yield Reason(
            ReasonCode.WINDOW_FULL,
            f"record {state.start_offset} is not done, and {SPAN_MAX} records from it on were "
            f"{'read' if state.keys_read_to >= 0 else 'given'}{_holders(state, now_ms)}",
        )
        if state.keys_waiting:
            yield _keys_waiting(state)
    elif state.keys_waiting:
        yield _keys_waiting(state, _holders(state, now_ms))
        if state.keys_read_to < end:
            yield Reason(
                ReasonCode.DELIVERABLE, f"records from {state.keys_read_to} on can be fetched, the end is {end}"
            )
    elif first < end:
        yield Reason(ReasonCode.DELIVERABLE, f"records from {first} on can be fetched, the end is {end}")
    else:
        if is_committed and log.last_stable_offset < log.high_watermark:
            yield _held(log, "records of committed transactions alone are given", now_ms)
        if state.locked_count:
            yield Reason(
                ReasonCode.ALL_LOCKED,
                f"{_locked(state)}{_holders(state, now_ms)}",
            )
        elif end == log.high_watermark and not state.delayed_count and not state.archiving_count:
            yield Reason(ReasonCode.NOTHING_NEW, f"all is done up to the end, {end}")
    yield from _waiting(state, now_ms)


def _waiting(state: ExplainedPartition, now_ms: int) -> Iterator[Reason]:
    if state.delayed_count:
        first, last = _time(now_ms + state.delayed_first_ms), _time(now_ms + state.delayed_last_ms)
        until = f"until {first}" if first == last else f"the first until {first}, the last until {last}"
        yield Reason(ReasonCode.BACK_OFF, f"{_records(state.delayed_count)} in back-off, {until}")
    if state.archiving_count:
        why = f" could not be written yet: {state.archiving_why}" if state.archiving_why else " are being written"
        yield Reason(
            ReasonCode.DEAD_LETTERS,
            f"{_records(state.archiving_count)} given up, from {state.archiving_first} on, whose dead letters{why}",
        )


def _locked(state: ExplainedPartition) -> str:
    if state.delayed_count or state.archiving_count:
        return f"{_records(state.locked_count)} locked"
    return f"all {state.locked_count} records that are left are locked"


def _records(count: int) -> str:
    return "1 record is" if count == 1 else f"{count} records are"


def _keys_waiting(state: ExplainedPartition, holders: str = "") -> Reason:
    text = (
        f"{state.keys_waiting} records wait for earlier ones of their keys, or for a fetch of the member that their keys are "
        f"meant for ({state.key_members} fetch)"
    )
    return Reason(ReasonCode.KEYS_WAITING, f"{text}; locked are{holders.removeprefix(':')}" if holders else text)


def _holders(state: ExplainedPartition, now_ms: int) -> str:
    said = [
        f"{one.count} by member {one.member_id} until {_time(now_ms + one.left_ms)}"
        for one in state.holders[:_HOLDERS_SAID_MAX]
    ]
    more = len(state.holders) - len(said)
    if more > 0:
        said.append(f"and {more} more members")
    return ": " + ", ".join(said) if said else ""


def _held(log: LogFacts, who: str, now_ms: int) -> Reason:
    transaction = log.transaction
    if transaction is None:
        text = f"a transaction is open from {log.last_stable_offset} on"
    else:
        text = f"producer {transaction.producer_id} has a transaction open from {transaction.first_offset} on"
        if transaction.transactional_id is not None:
            text += f", transactional id {transaction.transactional_id}"
        if transaction.since_ms is not None:
            text += f", for {max(0, now_ms - transaction.since_ms) // 1000} s"
    return Reason(ReasonCode.TRANSACTION_OPEN, f"{text}; {who}")


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S")
