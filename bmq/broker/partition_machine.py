"""One partition's log: start -> recover -> write, mend, idle, hand over, or fenced. Decisions only.

`step(state, event)` returns the next state and the effects, in order; runtime.py performs them and reports each outcome
as an event. The same events always give the same effects. The rules named here are those of docs/FENCING.md.

Claiming, Sealing   start: our `.open` directory is made; older ones are being renamed
Recovering          every file still open under an older epoch is being closed, then the log is walked; meanwhile our
                    first segment is opened
Opening             our manifest is being made; until it and the first segment are confirmed we own nothing (rule 6)
Writing             normal; the next segment is opened ahead of need
Mending             the writer broke and its file is being closed at a length that every replica has
AwaitingSegment     one segment is full or mended, the next is not open yet or the store is away; batches wait
Idle                nothing was produced for long: no segment is open, the next batch opens one
Blocked             the store has no room: batches are refused, opening is tried again
Draining, Closing, Releasing, Released     a planned stop: batches, segment, directory, over (rule 8)
Fenced              a newer epoch exists; nothing is accepted any more
Offline             acknowledged data is missing, or what we know may differ from the files; an operator decides (rules
                    5 and 23)

A segment on fewer nodes than `min.insync.replicas` is *short*: acks=all is refused before it is written, or told of it
after. One on fewer than the store wants is given up for another that has more, as soon as there is one.

What an owner has accepted but not yet made durable is in one `InFlightBatches` queue that is changed in place: a tuple
copied for each batch would cost more than the batch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from bmq.broker.in_flight_batches import InFlightBatches
from bmq.broker.partition_events import (
    Abandon,
    Acknowledge,
    DirectoryReleased,
    DiscardSegment,
    Effect,
    EffectFailed,
    Event,
    IdleDue,
    LimitsChanged,
    MendSegment,
    OpenSegment,
    Outcome,
    OwnershipLost,
    ProduceArrived,
    Reject,
    ReplicasDue,
    RetryDue,
    RetryLater,
    RollDue,
    ScheduleWrite,
    SealOwnDirectory,
    SealSegment,
    Segment,
    SegmentMended,
    SegmentOpened,
    SegmentOpenFailed,
    SegmentSealed,
    SegmentSealFailed,
    SegmentSynced,
    StopRequested,
    WaitExpired,
    WriteBatches,
    WriteDue,
    WriterBroken,
)
from bmq.broker.partition_start import step_start
from bmq.broker.partition_states import (
    AcknowledgedDataLost,
    AwaitingSegment,
    Blocked,
    Claiming,
    Closing,
    Draining,
    Fenced,
    Idle,
    ImpossibleEvent,
    Mending,
    NextStatus,
    Offline,
    Opening,
    Owning,
    Recovering,
    Released,
    Releasing,
    RollReason,
    Sealing,
    SegmentToOpen,
    State,
    Step,
    Writing,
)
from bmq.protocol.error_codes import ErrorCode

NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
STORAGE_ERROR: Final = ErrorCode.KAFKA_STORAGE_ERROR
TOO_FEW_REPLICAS: Final = ErrorCode.NOT_ENOUGH_REPLICAS

Effects = tuple[Effect, ...]

_NOTHING: Final[Effects] = ()
_SCHEDULE: Final[Effects] = (ScheduleWrite(),)


def step(state: State, event: Event) -> Step:
    """The state and effects that follow from `event`. If it raises anything, `offline` gives the next step."""
    if type(state) is Writing:  # the hot path: every batch comes through here twice, placed and synced
        if type(event) is ProduceArrived:
            log = state.log
            log.place(event.batch)
            return state, (_SCHEDULE if len(log.waiting) == 1 else _NOTHING)
        if type(event) is SegmentSynced and event.roll == state.segment.roll:
            return _synced(state, state.log, event)
        if type(event) is WriteDue:
            return _write(state, event.outstanding)
    match state, event:
        case State(is_final=True), ProduceArrived(batch):
            return state, (Reject((batch,), STORAGE_ERROR if isinstance(state, Offline) else NOT_LEADER),)
        case State(is_final=True), Outcome():
            return state, ()
        case _, OwnershipLost():
            return _end_as_fenced(state)
        case _, EffectFailed():
            return offline(state)
        case Writing(replicas=replicas), LimitsChanged(limits):
            return replace(state, limits=limits, is_short=replicas < limits.replicas_min), ()
        case _, LimitsChanged(limits):
            return replace(state, limits=limits), ()
        case Claiming() | Sealing() | Recovering() | Opening(), _:
            return step_start(state, event)
        case Writing() | Mending(), _:
            return _step_write(state, event)
        case AwaitingSegment() | Idle() | Blocked(), _:
            return _step_between(state, event)
        case Draining() | Closing() | Releasing(), _:
            return _step_leave(state, event)
    raise ImpossibleEvent(state, event)


def offline(state: State) -> Step:
    """Acknowledged data is missing, or memory may differ from the files: reject in-flight batches, touch nothing more.

    The batches may be in the log all the same, so they are rejected with NOT_LEADER_OR_FOLLOWER, as when fenced.
    """
    left = state.log.take_all() if isinstance(state, Owning) else ()
    return Offline(state.leader_epoch, state.limits), (Reject(left, NOT_LEADER), Abandon())


def _end_as_fenced(state: State) -> Step:
    # The outcome of batches on their way is unknown: the producer retries, and its sequence numbers remove a copy.
    left = state.log.take_all() if isinstance(state, Owning) else ()
    return Fenced(state.leader_epoch, state.limits), (Reject(left, NOT_LEADER), Abandon())


# --- write and mend


def _step_write(state: State, event: Event) -> Step:  # noqa: C901 a table of transitions
    match state, event:
        case Writing(segment=segment), WriterBroken(roll, is_full, is_resting) if roll == segment.roll:
            return _break(state, is_full=is_full, is_resting=is_resting)
        case Writing(segment=segment), RollDue(roll) if roll == segment.roll and state.log.segment_bytes:
            if state.next.status is NextStatus.FAILED:
                return _write(replace(state, is_roll_due=True))
            return _write(replace(state, roll_reason=RollReason.AGE))
        case Writing(segment=segment, roll_reason=RollReason.NONE), ReplicasDue(roll) if roll == segment.roll:
            following = state.next
            if following.status is NextStatus.FAILED:
                following = replace(following, status=NextStatus.ABSENT)
            return _write(replace(state, next=following, roll_reason=RollReason.MORE_REPLICAS))
        case Writing(segment=segment), IdleDue(roll) if roll == segment.roll and state.is_quiet:
            idle = Idle(
                state.leader_epoch,
                state.limits,
                state.log,
                _unindexed_with(state),
                SegmentToOpen(_next_segment_number(state), skipped_rolls=_next_segment_number(state) - roll - 1),
            )
            return idle, _seal_current(state)
        case Writing(log=log, segment=segment), StopRequested():
            return _drain(state)
        case Mending(log=log, segment=segment), SegmentMended(roll, end_offset, replicas) if roll == segment.roll:
            if end_offset < log.high_watermark:
                raise AcknowledgedDataLost(state.leader_epoch, end_offset, log.high_watermark)
            return _mended(state, end_offset, replicas)
        case Mending(is_stopping=False, log=log), ProduceArrived(batch):
            log.place(batch)
            return state, ()
        case Mending(), ProduceArrived(batch):
            return state, (Reject((batch,), NOT_LEADER),)
        case Mending(), StopRequested():
            return replace(state, is_stopping=True), ()
        case Mending(log=log), WaitExpired():
            return state, (Reject(log.take_waiting(), STORAGE_ERROR),)
        case ((Writing() | Mending()), SegmentOpened(roll, replicas, bytes_max)) if _awaits(state, roll):
            state.log.following_bytes_max = bytes_max
            return _go_on(replace(state, next=state.next.opened(replicas)))
        case Writing(), SegmentOpenFailed(roll) if _awaits(state, roll):
            return _write(replace(state, next=state.next.failed(), roll_reason=RollReason.NONE))
        case Mending(), SegmentOpenFailed(roll) if _awaits(state, roll):
            return replace(state, next=state.next.failed()), ()
        case ((Writing() | Mending()), SegmentSealed(roll)):
            return _go_on(replace(state, unindexed=state.unindexed - {roll}))
        case _, Outcome():
            return state, ()
    raise ImpossibleEvent(state, event)


def _awaits(state: Writing | Mending | Draining, roll: int) -> bool:
    return state.next.is_opening() and roll == state.next.roll_after(state.segment)


def _break(state: Writing | Draining, *, is_full: bool, is_resting: bool = False) -> Step:
    mending = Mending(
        state.leader_epoch,
        state.limits,
        state.log,
        state.unindexed,
        state.segment,
        state.next,
        is_full=is_full,
        is_stopping=isinstance(state, Draining),
        is_resting=is_resting,
    )
    return mending, (MendSegment(state.segment),)


def _go_on(state: Writing | Mending) -> Step:
    return _write(state) if isinstance(state, Writing) else (state, ())


def _synced(state: Writing, log: InFlightBatches, event: SegmentSynced) -> Step:
    end_offset = event.end_offset
    if end_offset > log.log_end_offset:
        raise ImpossibleEvent(state, end_offset)
    acknowledge = Acknowledge(log.take_synced(end_offset), log.high_watermark, state.is_short)
    if not log.waiting and not state.is_roll_due:
        return state, (acknowledge,)
    after, effects = _write(state, event.outstanding)
    return after, (acknowledge, *effects)


def _write(state: Writing, outstanding: int = 0) -> Step:
    """Write waiting batches as far as they fit, and ask for the next segment if it is due.

    While many appends of other partitions are outstanding, batches behind one of our own wait for it and share the
    next: an append costs the same for one batch as for many. A partition with no append outstanding never waits, so
    every partition always has one in the store.
    """
    log, limits = state.log, state.limits
    effects: list[Effect] = []
    own = len(log.append_ends)
    may_append = not own or max(own, outstanding) < limits.appends_outstanding_max
    if log.waiting and not state.is_roll_due and may_append:
        batches = log.take_until_segment_is_full(limits)
        if batches:
            effects.append(WriteBatches(state.segment, batches))
        if log.waiting:
            state = replace(state, is_roll_due=True)
    if state.roll_reason is not RollReason.NONE and state.next.is_ready() and not state.is_roll_due:
        state, more = _weigh(state)
        effects += more
    if state.is_roll_due or state.roll_reason is not RollReason.NONE or log.is_segment_nearly_full(limits):
        if state.is_roll_due and not log.written:
            after, rolling = _roll(state)
            return after, (*effects, *rolling)
        # Rule 4: segment n + 2 is not opened before index n is durable (discarded unused segments do not count).
        if state.next.status is NextStatus.ABSENT and not state.unindexed:
            state = replace(state, next=state.next.opening())
            effects.append(OpenSegment(state.next.roll_after(state.segment)))
    return state, tuple(effects)


def _weigh(state: Writing) -> tuple[Writing, Effects]:
    """The next segment is open though this one is not full: take it, or throw it away if it is no better."""
    if state.roll_reason is RollReason.AGE or state.next.replicas > state.replicas:
        return replace(state, is_roll_due=True, roll_reason=RollReason.NONE), ()
    state = replace(state, roll_reason=RollReason.NONE)
    if state.log.is_segment_nearly_full(state.limits):
        return state, ()  # the next segment is needed soon anyway
    discard = DiscardSegment(state.next.roll_after(state.segment))
    return replace(state, next=state.next.discarded()), (discard,)


def _roll(state: Writing) -> Step:
    """Everything in the segment is durable and it takes no more: go on to the next one.

    Only then may the next one be written, or the high watermark would pass a gap if this one turned out shorter (rule 4).
    """
    log, segment = state.log, state.segment
    is_empty = _is_segment_empty(state)
    closing = DiscardSegment(segment.roll) if is_empty else SealSegment(segment, log.high_watermark)
    log.segment_bytes = 0
    unindexed, following = _unindexed_with(state), state.next
    roll = following.roll_after(segment)
    if following.is_ready():
        after, effects = _enter(state, unindexed, roll, following.replicas)
    else:
        opening = SegmentToOpen(roll, following.is_opening(), following.skipped_rolls)
        after, effects = _ask(AwaitingSegment(state.leader_epoch, state.limits, log, unindexed, opening))
    return after, (closing, *effects)


def _mended(state: Mending, end_offset: int, replicas: int) -> Step:
    """A failed write may have reached the disks: acknowledge that part, write only the rest again (rule 9)."""
    log, segment, limits = state.log, state.segment, state.limits
    if end_offset > log.log_end_offset:
        raise ImpossibleEvent(state, end_offset)
    is_short = replicas < limits.replicas_min
    effects: list[Effect] = [Acknowledge(log.take_synced(end_offset), end_offset, is_short)]
    log.write_again()
    unindexed = state.unindexed
    if end_offset > segment.base_offset:
        effects.append(SealSegment(segment, end_offset))
        unindexed |= {segment.roll}
    else:
        effects.append(DiscardSegment(segment.roll))
    following = state.next
    roll, is_ready = following.roll_after(segment), following.is_ready()
    is_resting = state.is_resting and not log.waiting and not following.is_opening()
    # A node is lost, and the next segment was most likely opened on it too; one opened now avoids that node.
    if is_ready and (state.is_stopping or state.is_full or is_resting or replicas < limits.replicas_wanted):
        effects.append(DiscardSegment(roll))
        roll, is_ready = roll + 1, False
    opening = SegmentToOpen(roll, following.is_opening(), skipped_rolls=roll - segment.roll - 1)
    common = (state.leader_epoch, limits, log, unindexed)
    after: State
    more: Effects
    if state.is_stopping:
        effects.append(Reject(log.take_waiting(), NOT_LEADER))
        after, more = _release(Closing(*common))
    elif state.is_full:
        # A new file would not find more room. The remaining batches are not in the log, so they can be refused for
        # good.
        effects.append(Reject(log.take_waiting(), STORAGE_ERROR))
        after, more = Blocked(*common, opening), () if opening.is_asked else (RetryLater(),)
    elif is_resting:
        after, more = Idle(*common, opening), ()
    elif is_ready:
        after, more = _enter(state, unindexed, roll, following.replicas)
    else:
        after, more = _ask(AwaitingSegment(*common, opening))
    return after, (*effects, *more)


def _enter(state: Owning, unindexed: Iterable[int], roll: int, replicas: int) -> Step:
    """Start writing to segment `roll`, which is open and empty; our directory was verified after that (rule 7)."""
    log, limits = state.log, state.limits
    log.segment_bytes, log.segment_bytes_max = 0, log.following_bytes_max
    segment = Segment(state.leader_epoch, roll, log.high_watermark)
    is_short = replicas < limits.replicas_min
    writing = Writing(
        state.leader_epoch, limits, log, frozenset(unindexed), segment, replicas=replicas, is_short=is_short
    )
    refused = log.take_acks_all() if is_short else ()
    after, effects = _write(writing)
    return after, (Reject(refused, TOO_FEW_REPLICAS), *effects) if refused else effects


# --- without an open segment


def _step_between(state: State, event: Event) -> Step:
    match state, event:
        case AwaitingSegment(log=log), ProduceArrived(batch):
            log.place(batch)
            return state, ()
        case Idle(epoch, limits, log, unindexed, opening), ProduceArrived(batch):
            log.place(batch)
            return _ask(AwaitingSegment(epoch, limits, log, unindexed, opening))
        case Blocked(), ProduceArrived(batch):
            return state, (Reject((batch,), STORAGE_ERROR),)
        case ((AwaitingSegment() | Blocked()), SegmentOpened(roll, replicas, bytes_max)) if roll == state.next.roll:
            state.log.following_bytes_max = bytes_max
            return _enter(state, state.unindexed, roll, replicas)
        case ((AwaitingSegment() | Blocked()), SegmentOpenFailed(roll, is_full)) if roll == state.next.roll:
            passed = replace(state, next=state.next.failed())
            return _block(passed) if is_full else _wait(passed)
        case AwaitingSegment(next=SegmentToOpen(is_asked=False)), SegmentSealFailed(_, True):
            return _block(state)
        case AwaitingSegment(log=log), WaitExpired():
            return state, (Reject(log.take_waiting(), STORAGE_ERROR),)
        case AwaitingSegment(next=SegmentToOpen(is_asked=False)), RetryDue():
            return _ask(state)
        case ((AwaitingSegment() | Idle() | Blocked()), SegmentSealed(roll)):
            sealed = replace(state, unindexed=state.unindexed - {roll})
            return _ask(sealed) if isinstance(sealed, AwaitingSegment) else (sealed, ())
        case Blocked(next=SegmentToOpen(is_asked=False)), RetryDue():
            asked, effects = _ask(state)
            return asked, effects or (RetryLater(),)
        case ((AwaitingSegment() | Idle() | Blocked()), StopRequested()):
            rejected = Reject(state.log.take_waiting(), NOT_LEADER)
            closing = Closing(state.leader_epoch, state.limits, state.log, state.unindexed)
            after, effects = _release(closing)
            return after, (rejected, *effects)
        case _, Outcome():
            return state, ()
    raise ImpossibleEvent(state, event)


def _ask(state: AwaitingSegment | Blocked) -> Step:
    opening = state.next
    if opening.is_asked or any(roll < opening.last_roll for roll in state.unindexed):  # rule 4
        return state, ()
    return replace(state, next=replace(opening, is_asked=True)), (OpenSegment(opening.roll),)


def _block(state: AwaitingSegment | Blocked) -> Step:
    """The store is full: batches are refused at once, not kept waiting, while opening is retried."""
    refused = log.take_waiting() if (log := state.log).waiting else ()
    blocked = Blocked(state.leader_epoch, state.limits, log, state.unindexed, replace(state.next, is_asked=False))
    return blocked, (Reject(refused, STORAGE_ERROR), RetryLater()) if refused else (RetryLater(),)


def _wait(state: AwaitingSegment | Blocked) -> Step:
    """The store does not answer: batches wait, and opening is tried again."""
    opening = replace(state.next, is_asked=False)
    waiting = AwaitingSegment(state.leader_epoch, state.limits, state.log, state.unindexed, opening)
    return waiting, (RetryLater(),)


# --- hand over


def _step_leave(state: State, event: Event) -> Step:
    match state, event:
        case _, ProduceArrived(batch):
            return state, (Reject((batch,), NOT_LEADER),)
        case Draining(log=log, segment=segment), SegmentSynced(roll, end_offset) if roll == segment.roll:
            acknowledge = Acknowledge(log.take_synced(end_offset), log.high_watermark, state.is_short)
            if log.written:
                return state, (acknowledge,)
            after, effects = _close(state)
            return after, (acknowledge, *effects)
        case Draining(segment=segment), WriterBroken(roll, is_full) if roll == segment.roll:
            return _break(state, is_full=is_full)
        case Draining(), SegmentOpened(roll, replicas) if _awaits(state, roll):
            return replace(state, next=state.next.opened(replicas)), ()
        case Draining(), SegmentSealed(roll):
            return replace(state, unindexed=state.unindexed - {roll}), ()
        case Closing(), SegmentOpened(roll):
            return state, (DiscardSegment(roll),)
        case Closing(), (SegmentSealed(roll) | SegmentSealFailed(roll)):
            # Without the index the next owner has to read the segment, which is only slower.
            return _release(replace(state, unindexed=state.unindexed - {roll}))
        case Releasing(epoch, limits), DirectoryReleased():
            return Released(epoch, limits), (Abandon(),)
        case _, Outcome():
            return state, ()
    raise ImpossibleEvent(state, event)


def _drain(state: Writing) -> Step:
    """Write what still fits, refuse the rest, and wait for what is on its way."""
    log = state.log
    effects: list[Effect] = []
    if log.waiting and not state.is_roll_due:
        batches = log.take_until_segment_is_full(state.limits)
        if batches:
            effects.append(WriteBatches(state.segment, batches))
    if log.waiting:
        effects.append(Reject(log.take_waiting(), NOT_LEADER))
    draining = Draining(
        state.leader_epoch,
        state.limits,
        log,
        state.unindexed,
        state.segment,
        state.next,
        is_short=state.is_short,
    )
    if log.written:
        return draining, tuple(effects)
    after, more = _close(draining)
    return after, (*effects, *more)


def _close(state: Draining) -> Step:
    after, effects = _release(Closing(state.leader_epoch, state.limits, state.log, _unindexed_with(state)))
    return after, (*_seal_current(state), *effects)


def _release(state: Closing) -> Step:
    if state.unindexed:
        return state, ()
    return Releasing(state.leader_epoch, state.limits, state.log, state.unindexed), (SealOwnDirectory(),)


def _is_segment_empty(state: Writing | Draining) -> bool:
    return state.segment.base_offset == state.log.high_watermark


def _unindexed_with(state: Writing | Draining) -> frozenset[int]:
    return state.unindexed if _is_segment_empty(state) else state.unindexed | {state.segment.roll}


def _next_segment_number(state: Writing) -> int:
    return state.next.roll_after(state.segment) + state.next.is_ready()


def _seal_current(state: Writing | Draining) -> Effects:
    segment = state.segment
    effects: list[Effect] = [
        DiscardSegment(segment.roll)
        if _is_segment_empty(state)
        else SealSegment(segment, end_offset=state.log.high_watermark)
    ]
    if state.next.is_ready():
        effects.append(DiscardSegment(state.next.roll_after(state.segment)))
    return tuple(effects)
