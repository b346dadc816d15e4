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
from typing import Final, TypeVar

from bmq.broker.partition_events import (
    RECOVERED,
    Abandon,
    Acknowledge,
    ClaimDirectory,
    CloseFile,
    DirectoriesSealed,
    DirectoryClaimed,
    DirectoryReleased,
    DiscardSegment,
    Effect,
    EffectFailed,
    Event,
    FileClosed,
    IdleDue,
    Limits,
    LimitsChanged,
    LogWalked,
    ManifestWritten,
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
    SaveRecoveredIndexes,
    ScheduleWrite,
    SealDirectories,
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
    WalkLog,
    WriteBatches,
    WriteDue,
    WriteManifest,
    WriterBroken,
)
from bmq.broker.partition_states import (
    AwaitingSegment,
    Blocked,
    Claiming,
    Closing,
    Draining,
    Fenced,
    Following,
    Idle,
    InFlightBatches,
    Mending,
    Offline,
    Opening,
    Owning,
    Recovering,
    Released,
    Releasing,
    Sealing,
    State,
    Wish,
    WithSegment,
    Writing,
)
from bmq.log.padding import padded_end
from bmq.log.partition_log import Batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

NOT_LEADER: Final = ErrorCode.NOT_LEADER_OR_FOLLOWER
STORAGE_ERROR: Final = ErrorCode.KAFKA_STORAGE_ERROR
TOO_FEW_REPLICAS: Final = ErrorCode.NOT_ENOUGH_REPLICAS


class AcknowledgedDataLost(BmqError):
    """The log ends before data that was acknowledged. The partition goes offline, loudly (rule 5)."""

    code = ErrorCode.KAFKA_STORAGE_ERROR

    def __init__(self, leader_epoch: int, end_offset: int, acknowledged_offset: int) -> None:
        super().__init__(
            f"in epoch {leader_epoch} the log ends at offset {end_offset}, "
            f"but everything below {acknowledged_offset} was acknowledged"
        )
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset
        self.acknowledged_offset = acknowledged_offset


class ImpossibleEvent(Exception):
    """An event that no order of effects can lead to: a bug."""


_S = TypeVar("_S", Writing, Mending)

Effects = tuple[Effect, ...]
Step = tuple[State, Effects]

_NOTHING: Final[Effects] = ()
_SCHEDULE: Final[Effects] = (ScheduleWrite(),)


def start(leader_epoch: int, limits: Limits, floor: int) -> Step:
    """The first state and its effects."""
    return Claiming(leader_epoch, limits, floor), (ClaimDirectory(),)


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
            return _fenced(state)
        case _, EffectFailed():
            return offline(state)
        case Writing(replicas=replicas), LimitsChanged(limits):
            return replace(state, limits=limits, is_short=replicas < limits.replicas_min), ()
        case _, LimitsChanged(limits):
            return replace(state, limits=limits), ()
        case Claiming() | Sealing() | Recovering() | Opening(), _:
            return _step_start(state, event)
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


def _fenced(state: State) -> Step:
    # The outcome of batches on their way is unknown: the producer retries, and its sequence numbers remove a copy.
    left = state.log.take_all() if isinstance(state, Owning) else ()
    return Fenced(state.leader_epoch, state.limits), (Reject(left, NOT_LEADER), Abandon())


# --- start -> recover


def _step_start(state: State, event: Event) -> Step:
    match state, event:
        case Claiming(epoch, limits, floor), DirectoryClaimed(open_epochs, sealed_epochs):
            if epoch in sealed_epochs or any(other > epoch for other in open_epochs | sealed_epochs):
                return _fenced(state)
            older = open_epochs - {epoch}
            seal = SealDirectories(tuple(sorted(older - sealed_epochs)), tuple(sorted(older & sealed_epochs)))
            return Sealing(epoch, limits, floor), (seal,)
        case Sealing(epoch, limits, floor), DirectoriesSealed(open_files):
            closing = tuple(CloseFile(file) for file in sorted(open_files))
            # Recovery cannot affect our first segment, and opening it takes as long as closing theirs.
            return Recovering(epoch, limits, floor, open_files), (*(closing or (WalkLog(),)), OpenSegment(roll=0))
        case Recovering() | Opening(is_recorded=False), SegmentOpened(roll, replicas, bytes_max):
            return replace(state, replicas=replicas, first_roll=roll, first_bytes_max=bytes_max), ()
        case Recovering(open_files=files), FileClosed(file) if file in files:
            left = files - {file}
            return replace(state, open_files=left), () if left else (WalkLog(),)
        case Recovering(epoch, limits, floor, files), LogWalked(end_offset, is_indexed) if not files:
            if end_offset < floor:
                raise AcknowledgedDataLost(epoch, end_offset, floor)
            unindexed = frozenset() if is_indexed else frozenset({RECOVERED})
            opening = Opening(
                epoch,
                limits,
                end_offset,
                unindexed,
                replicas=state.replicas,
                first_roll=state.first_roll,
                first_bytes_max=state.first_bytes_max,
            )
            return opening, (WriteManifest(end_offset),)
        case Opening(is_recorded=False, replicas=0), ManifestWritten():
            return replace(state, is_recorded=True), ()
        case Opening(is_recorded=False, replicas=replicas), ManifestWritten():
            return _begin(state, replicas)
        case Opening(is_recorded=True), SegmentOpened(roll, replicas, bytes_max):
            return _begin(replace(state, first_roll=roll, first_bytes_max=bytes_max), replicas)
        case _, StopRequested():
            return Released(state.leader_epoch, state.limits), (Abandon(),)
        case _, ProduceArrived(batch):
            return state, (Reject((batch,), NOT_LEADER),)
        case _, Outcome():
            return state, ()
    raise ImpossibleEvent(state, event)


def _begin(state: Opening, replicas: int) -> Step:
    """Manifest and first segment are confirmed: from here on we own the partition."""
    first = Segment(state.leader_epoch, state.first_roll, base_offset=state.end_offset)
    writing = Writing(
        state.leader_epoch,
        state.limits,
        InFlightBatches(state.end_offset, state.first_bytes_max),
        state.unindexed,
        first,
        replicas=replicas,
        is_short=replicas < state.limits.replicas_min,
    )
    return writing, (SaveRecoveredIndexes(),) if state.unindexed else ()


# --- write and mend


def _step_write(state: State, event: Event) -> Step:  # noqa: C901 a table of transitions
    match state, event:
        case Writing(segment=segment), WriterBroken(roll, is_full) if roll == segment.roll:
            return _break(state, is_full=is_full)
        case Writing(segment=segment), RollDue(roll) if roll == segment.roll and state.log.segment_bytes:
            if state.following is Following.FAILED:
                return _write(replace(state, is_roll_due=True))
            return _write(replace(state, wish=Wish.ROLL))
        case Writing(segment=segment, wish=Wish.NONE), ReplicasDue(roll) if roll == segment.roll:
            following = Following.ABSENT if state.following is Following.FAILED else state.following
            return _write(replace(state, following=following, wish=Wish.MORE_REPLICAS))
        case Writing(segment=segment), IdleDue(roll) if roll == segment.roll and _is_quiet(state):
            idle = Idle(
                state.leader_epoch,
                state.limits,
                state.log,
                _unindexed_with(state),
                _next_roll(state),
                skipped_rolls=_next_roll(state) - roll - 1,
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
            return _go_on(replace(state, following=Following.READY, following_replicas=replicas))
        case Writing(), SegmentOpenFailed(roll) if _awaits(state, roll):
            return _write(replace(_without_following(state), wish=Wish.NONE))
        case Mending(), SegmentOpenFailed(roll) if _awaits(state, roll):
            return _without_following(state), ()
        case ((Writing() | Mending()), SegmentSealed(roll)):
            return _go_on(replace(state, unindexed=state.unindexed - {roll}))
        case _, Outcome():
            return state, ()
    raise ImpossibleEvent(state, event)


def _awaits(state: WithSegment, roll: int) -> bool:
    return state.following is Following.ASKED and roll == state.following_roll


def _without_following(state: _S) -> _S:
    """The next segment could not be opened. Its creation may still be carried out late, so skip its roll (rule 21)."""
    return replace(state, following=Following.FAILED, skipped_rolls=state.skipped_rolls + 1)


def _break(state: Writing | Draining, *, is_full: bool) -> Step:
    mending = Mending(
        state.leader_epoch,
        state.limits,
        state.log,
        state.unindexed,
        state.segment,
        state.following,
        state.following_replicas,
        state.skipped_rolls,
        is_full=is_full,
        is_stopping=isinstance(state, Draining),
    )
    return mending, (MendSegment(state.segment),)


def _go_on(state: Writing | Mending) -> Step:
    return _write(state) if isinstance(state, Writing) else (state, ())


def _is_quiet(state: Writing) -> bool:
    return not state.log.written and not state.log.waiting and state.following is not Following.ASKED


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
        batches = _take_fitting(log, limits)
        if batches:
            effects.append(WriteBatches(state.segment, batches))
        if log.waiting:
            state = replace(state, is_roll_due=True)
    if state.wish is not Wish.NONE and state.following is Following.READY and not state.is_roll_due:
        state, more = _weigh(state)
        effects += more
    if state.is_roll_due or state.wish is not Wish.NONE or _is_nearly_full(state):
        if state.is_roll_due and not log.written:
            after, rolling = _roll(state)
            return after, (*effects, *rolling)
        # Rule 4: segment n + 2 is not opened before index n is durable (discarded unused segments do not count).
        if state.following is Following.ABSENT and not state.unindexed:
            state = replace(state, following=Following.ASKED)
            effects.append(OpenSegment(state.following_roll))
    return state, tuple(effects)


def _weigh(state: Writing) -> tuple[Writing, Effects]:
    """The next segment is open though this one is not full: take it, or throw it away if it is no better."""
    if state.wish is Wish.ROLL or state.following_replicas > state.replicas:
        return replace(state, is_roll_due=True, wish=Wish.NONE), ()
    state = replace(state, wish=Wish.NONE)
    if _is_nearly_full(state):
        return state, ()  # the next segment is needed soon anyway
    discard = DiscardSegment(state.following_roll)
    return replace(state, following=Following.ABSENT, skipped_rolls=state.skipped_rolls + 1), (discard,)


def _segment_bytes_max(log: InFlightBatches, limits: Limits) -> int:
    """The current segment's size limit: by the topic's settings, and by the size it was opened for."""
    return min(limits.segment_bytes, log.segment_bytes_max)


def _is_nearly_full(state: Writing) -> bool:
    """Whether to open the next segment ahead of need: at the same share of a small segment as of a large one."""
    log, limits = state.log, state.limits
    return log.segment_bytes >= limits.preopen_bytes * _segment_bytes_max(log, limits) // limits.segment_bytes


def _take_fitting(log: InFlightBatches, limits: Limits) -> tuple[Batch, ...]:
    """Move what fits into the segment from waiting to written. An empty segment takes a batch of any size."""
    waiting = log.waiting
    room = _segment_bytes_max(log, limits) - log.segment_bytes
    size = 0
    taken: list[Batch] = []
    while waiting:
        after = size + waiting[0].size_bytes
        if after > room and (taken or log.segment_bytes):
            break
        size = after
        taken.append(waiting.popleft())
    if taken:
        log.written.extend(taken)
        log.segment_bytes = padded_end(log.segment_bytes + size, limits.append_alignment_bytes)
        log.append_ends.append(taken[-1].end_offset)
    return tuple(taken)


def _roll(state: Writing) -> Step:
    """Everything in the segment is durable and it takes no more: go on to the next one.

    Only then may the next one be written, or the high watermark would pass a gap if this one turned out shorter (rule 4).
    """
    log, segment = state.log, state.segment
    is_empty = _is_segment_empty(state)
    closing = DiscardSegment(segment.roll) if is_empty else SealSegment(segment, log.high_watermark)
    log.segment_bytes = 0
    unindexed = _unindexed_with(state)
    if state.following is Following.READY:
        after, effects = _enter(state, unindexed, state.following_roll, state.following_replicas)
    else:
        after, effects = _ask(
            AwaitingSegment(
                state.leader_epoch,
                state.limits,
                log,
                unindexed,
                state.following_roll,
                is_asked=state.following is Following.ASKED,
                skipped_rolls=state.skipped_rolls,
            )
        )
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
    roll, is_ready = state.following_roll, state.following is Following.READY
    # A node is lost, and the next segment was most likely opened on it too; one opened now avoids that node.
    if is_ready and (state.is_stopping or state.is_full or replicas < limits.replicas_wanted):
        effects.append(DiscardSegment(roll))
        roll, is_ready = roll + 1, False
    is_asked = state.following is Following.ASKED
    skipped = roll - segment.roll - 1
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
        after, more = Blocked(*common, roll, is_asked, skipped), () if is_asked else (RetryLater(),)
    elif is_ready:
        after, more = _enter(state, unindexed, roll, state.following_replicas)
    else:
        after, more = _ask(AwaitingSegment(*common, roll, is_asked, skipped))
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
        case Idle(epoch, limits, log, unindexed, roll), ProduceArrived(batch):
            log.place(batch)
            return _ask(AwaitingSegment(epoch, limits, log, unindexed, roll, skipped_rolls=state.skipped_rolls))
        case Blocked(), ProduceArrived(batch):
            return state, (Reject((batch,), STORAGE_ERROR),)
        case ((AwaitingSegment() | Blocked()), SegmentOpened(roll, replicas, bytes_max)) if roll == state.roll:
            state.log.following_bytes_max = bytes_max
            return _enter(state, state.unindexed, roll, replicas)
        case ((AwaitingSegment(roll=roll) | Blocked(roll=roll)), SegmentOpenFailed(failed, is_full)) if failed == roll:
            # The failed creation may still be carried out late, so this roll is not used again (rule 21).
            passed = replace(state, roll=roll + 1, is_asked=False, skipped_rolls=state.skipped_rolls + 1)
            return _block(passed) if is_full else _wait(passed)
        case AwaitingSegment(is_asked=False), SegmentSealFailed(_, True):
            return _block(state)
        case AwaitingSegment(log=log), WaitExpired():
            return state, (Reject(log.take_waiting(), STORAGE_ERROR),)
        case AwaitingSegment(is_asked=False), RetryDue():
            return _ask(state)
        case ((AwaitingSegment() | Idle() | Blocked()), SegmentSealed(roll)):
            sealed = replace(state, unindexed=state.unindexed - {roll})
            return _ask(sealed) if isinstance(sealed, AwaitingSegment) else (sealed, ())
        case Blocked(is_asked=False), RetryDue():
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
    if state.is_asked or any(roll < state.last_roll for roll in state.unindexed):  # rule 4
        return state, ()
    return replace(state, is_asked=True), (OpenSegment(state.roll),)


def _block(state: AwaitingSegment | Blocked) -> Step:
    """The store is full: batches are refused at once, not kept waiting, while opening is retried."""
    refused = log.take_waiting() if (log := state.log).waiting else ()
    blocked = Blocked(
        state.leader_epoch, state.limits, log, state.unindexed, state.roll, skipped_rolls=state.skipped_rolls
    )
    return blocked, (Reject(refused, STORAGE_ERROR), RetryLater()) if refused else (RetryLater(),)


def _wait(state: AwaitingSegment | Blocked) -> Step:
    """The store does not answer: batches wait, and opening is tried again."""
    waiting = AwaitingSegment(
        state.leader_epoch, state.limits, state.log, state.unindexed, state.roll, skipped_rolls=state.skipped_rolls
    )
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
            return replace(state, following=Following.READY, following_replicas=replicas), ()
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
        batches = _take_fitting(log, state.limits)
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
        state.following,
        state.following_replicas,
        state.skipped_rolls,
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


def _next_roll(state: Writing) -> int:
    return state.following_roll + (1 if state.following is Following.READY else 0)


def _seal_current(state: Writing | Draining) -> Effects:
    segment = state.segment
    effects: list[Effect] = [
        DiscardSegment(segment.roll)
        if _is_segment_empty(state)
        else SealSegment(segment, end_offset=state.log.high_watermark)
    ]
    if state.following is Following.READY:
        effects.append(DiscardSegment(state.following_roll))
    return tuple(effects)
