"""The partition machine alone: any history of one owner, and the single steps that matter."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bmq.broker import partition_events as ev
from bmq.broker.in_flight_batches import InFlightBatches
from bmq.broker.partition_machine import offline, step
from bmq.broker.partition_start import start
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
    NextSegment,
    NextStatus,
    Offline,
    Opening,
    Owning,
    Recovering,
    Released,
    Releasing,
    Sealing,
    SegmentToOpen,
    State,
    Writing,
)
from bmq.log.partition_log import Batch
from bmq.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.unit

LIMITS = ev.Limits(segment_bytes=10, preopen_bytes=6, appends_outstanding_max=2, replicas_wanted=3, replicas_min=2)


class PartitionHistory(RuleBasedStateMachine):
    """Whatever the order of produce, sync, failure, roll, rest and stop, an acknowledged batch is kept, once, in place.

    Method: a model store of one list per segment. A broken writer keeps any prefix of what was in flight. `send` steps
    and records the effects; background effects wait in `asked` until a rule lets them end.
    """

    def __init__(self) -> None:
        super().__init__()
        self.state: State = Claiming(1, LIMITS, 0)
        self.stored: list[Batch] = []
        self.in_flight: list[Batch] = []
        self.acknowledged: list[Batch] = []
        self.rejected: list[Batch] = []
        self.produced: list[Batch] = []
        self.asked: list[ev.Effect] = []
        self.is_write_due = False
        self.replicas: dict[int, int] = {}
        self.thrown_away: set[int] = set()

    def send(self, event: ev.Event) -> None:
        if isinstance(event, ev.SegmentOpened):
            self.replicas[event.roll] = event.replicas
        replicas = self.replicas.get(getattr(event, "roll", -1), 0)
        if isinstance(event, ev.SegmentMended):
            replicas = event.replicas
        self.state, effects = step(self.state, event)
        for effect in effects:
            match effect:
                case ev.ScheduleWrite():
                    self.is_write_due = True
                case ev.WriteBatches(segment, batches):
                    assert batches and segment.base_offset <= batches[0].base_offset
                    is_short = self.replicas[segment.roll] < LIMITS.replicas_min
                    assert not (is_short and any(batch.is_acks_all for batch in batches))
                    self.in_flight += batches
                case ev.Acknowledge(batches, _, is_short):
                    assert is_short == (replicas < LIMITS.replicas_min)
                    self.acknowledged += batches
                case ev.OpenSegment(roll):
                    assert roll not in self.thrown_away, "a name is used twice"
                    self.asked.append(effect)
                case ev.DiscardSegment(roll):
                    self.thrown_away.add(roll)
                case ev.Reject(batches):
                    self.rejected += batches
                case ev.Abandon():
                    self.asked.clear()
                    self.in_flight.clear()
                case _:
                    self.asked.append(effect)

    def store(self, count: int) -> int:
        self.stored += self.in_flight[:count]
        del self.in_flight[:count]
        return self.stored[-1].end_offset if self.stored else 0

    def take(self, *kinds: type[ev.Effect]) -> ev.Effect | None:
        for effect in self.asked:
            if isinstance(effect, kinds):
                self.asked.remove(effect)
                return effect
        return None

    @initialize()
    def start_up(self) -> None:
        self.state, effects = start(1, LIMITS, floor=0)
        assert effects == (ev.ClaimDirectory(),)
        self.send(ev.DirectoryClaimed(frozenset({1}), frozenset()))
        assert self.take(ev.SealDirectories) == ev.SealDirectories((), ())
        self.send(ev.DirectoriesSealed(frozenset()))
        assert self.take(ev.WalkLog) is not None
        assert self.take(ev.OpenSegment) == ev.OpenSegment(0)
        self.send(ev.LogWalked(0))
        assert self.take(ev.WriteManifest) == ev.WriteManifest(0)
        self.send(ev.ManifestWritten())
        self.send(ev.SegmentOpened(0, 3))
        assert isinstance(self.state, Writing)

    @rule(offset_count=st.integers(1, 5), size_bytes=st.integers(1, 12), is_acks_all=st.booleans())
    def produce(self, offset_count: int, size_bytes: int, is_acks_all: bool) -> None:
        if is_acks_all and isinstance(self.state, Writing) and self.state.is_short:
            return  # refused before it comes here
        batch = Batch(offset_count, size_bytes, is_acks_all=is_acks_all)
        self.produced.append(batch)
        self.send(ev.ProduceArrived(batch))

    @precondition(lambda self: self.is_write_due)
    @rule()
    def end_iteration(self) -> None:
        self.is_write_due = False
        self.send(ev.WriteDue())

    @precondition(lambda self: isinstance(self.state, Writing | Draining) and self.in_flight)
    @rule(appends=st.integers(1, 3))
    def sync(self, appends: int) -> None:
        assert isinstance(self.state, Writing | Draining)
        ends = list(self.state.log.append_ends)[:appends]
        count = sum(batch.end_offset <= ends[-1] for batch in self.in_flight)
        self.send(ev.SegmentSynced(self.state.segment.roll, self.store(count)))

    @precondition(lambda self: isinstance(self.state, Writing | Draining))
    @rule(count=st.integers(0, 3), is_full=st.booleans(), is_resting=st.booleans())
    def break_writer(self, count: int, is_full: bool, is_resting: bool) -> None:
        assert isinstance(self.state, Writing | Draining)
        self.store(count)
        self.in_flight.clear()
        self.send(ev.WriterBroken(self.state.segment.roll, is_full, is_resting))

    @precondition(lambda self: isinstance(self.state, Mending))
    @rule(replicas=st.integers(1, 3))
    def mend(self, replicas: int) -> None:
        assert isinstance(self.state, Mending)
        assert self.take(ev.MendSegment) is not None
        end_offset = max(self.store(0), self.state.segment.base_offset)
        self.send(ev.SegmentMended(self.state.segment.roll, end_offset, replicas))

    @precondition(lambda self: any(isinstance(effect, ev.OpenSegment) for effect in self.asked))
    @rule(fails=st.booleans(), is_full=st.booleans(), replicas=st.integers(1, 3))
    def open_segment(self, fails: bool, is_full: bool, replicas: int) -> None:
        effect = self.take(ev.OpenSegment)
        assert isinstance(effect, ev.OpenSegment)
        failed = ev.SegmentOpenFailed(effect.roll, is_full)
        self.send(failed if fails else ev.SegmentOpened(effect.roll, replicas))

    @precondition(lambda self: any(isinstance(effect, ev.SealSegment) for effect in self.asked))
    @rule(fails=st.booleans(), is_full=st.booleans())
    def seal_segment(self, fails: bool, is_full: bool) -> None:
        effect = self.take(ev.SealSegment)
        assert isinstance(effect, ev.SealSegment)
        if fails:
            self.asked.append(effect)
        roll = effect.segment.roll
        self.send(ev.SegmentSealFailed(roll, is_full) if fails else ev.SegmentSealed(roll))

    @precondition(lambda self: any(isinstance(effect, ev.RetryLater) for effect in self.asked))
    @rule()
    def retry(self) -> None:
        self.take(ev.RetryLater)
        self.send(ev.RetryDue())

    @rule(kind=st.sampled_from([ev.IdleDue, ev.RollDue, ev.ReplicasDue, ev.WaitExpired]))
    def hint(self, kind: type[ev.Event]) -> None:
        roll = self.state.segment.roll if isinstance(self.state, Writing) else 0
        self.send(ev.WaitExpired() if kind is ev.WaitExpired else kind(roll))  # type: ignore[call-arg]

    @rule(dice=st.integers(0, 9))
    def stop(self, dice: int) -> None:
        if dice == 0:
            self.send(ev.StopRequested())

    @precondition(lambda self: isinstance(self.state, Releasing))
    @rule()
    def release(self) -> None:
        assert self.take(ev.SealOwnDirectory) is not None
        self.send(ev.DirectoryReleased())
        assert isinstance(self.state, Released)

    @invariant()
    def acknowledged_is_kept_once_and_in_order(self) -> None:
        assert self.acknowledged == self.stored[: len(self.acknowledged)]
        assert all(a.end_offset == b.base_offset for a, b in pairwise(self.stored))

    @invariant()
    def every_batch_is_answered_once_or_waits(self) -> None:
        answered = [*self.acknowledged, *self.rejected]
        left = [*self.state.log.written, *self.state.log.waiting] if isinstance(self.state, Owning) else []
        assert len(answered) + len(left) == len(self.produced)
        assert {id(batch) for batch in (*answered, *left)} == {id(batch) for batch in self.produced}

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        kinds = {type(effect) for effect in self.asked}
        match self.state:
            case Writing(log=log) if log.waiting:
                assert self.is_write_due or log.written
            case AwaitingSegment(next=SegmentToOpen(is_asked=is_asked)):
                assert ev.OpenSegment in kinds if is_asked else kinds & {ev.SealSegment, ev.RetryLater}
            case Blocked(next=SegmentToOpen(is_asked=is_asked)):
                assert ev.OpenSegment in kinds if is_asked else ev.RetryLater in kinds
            case Closing():
                assert ev.SealSegment in kinds
            case Idle(log=log):
                assert not log.waiting and not log.written

    @invariant()
    def segments_keep_their_size(self) -> None:
        if isinstance(self.state, Writing):
            sizes = [batch.size_bytes for batch in self.state.log.written]
            assert self.state.log.segment_bytes <= max(LIMITS.segment_bytes, *sizes, 12)


TestPartitionHistory = PartitionHistory.TestCase


def writing(segment_bytes: int = 10) -> Writing:
    limits = ev.Limits(segment_bytes, segment_bytes, 2)
    return Writing(5, limits, InFlightBatches(100), frozenset(), ev.Segment(5, 0, 100))


def test_a_claim_refuses_any_sign_of_a_newer_owner() -> None:
    for open_epochs, sealed_epochs in (({5, 6}, ()), ({5}, {6}), ({5}, {5}), ({5, 4}, {4, 9})):
        state, _ = start(5, LIMITS, 0)
        state, effects = step(state, ev.DirectoryClaimed(frozenset(open_epochs), frozenset(sealed_epochs)))
        assert isinstance(state, Fenced)
        assert effects == (ev.Reject((), ErrorCode.NOT_LEADER_OR_FOLLOWER), ev.Abandon())


def test_a_leftover_open_directory_is_deleted_and_not_renamed() -> None:
    state, _ = start(5, LIMITS, 0)
    state, effects = step(state, ev.DirectoryClaimed(frozenset({2, 3, 5}), frozenset({1, 3})))
    assert isinstance(state, Sealing)
    assert effects == (ev.SealDirectories(epochs=(2,), leftovers=(3,)),)


def test_every_open_file_is_closed_before_the_log_is_walked() -> None:
    state: State = Sealing(5, LIMITS, 0)
    state, effects = step(state, ev.DirectoriesSealed(frozenset({"b", "a"})))
    assert effects == (ev.CloseFile("a"), ev.CloseFile("b"), ev.OpenSegment(0))
    state, effects = step(state, ev.FileClosed("b"))
    assert effects == ()
    assert step(state, ev.LogWalked(7)) == (state, ())
    state, effects = step(state, ev.FileClosed("a"))
    assert effects == (ev.WalkLog(),)
    assert isinstance(state, Recovering)


def test_an_end_below_the_floor_is_loud() -> None:
    state = Recovering(5, LIMITS, floor=10, open_files=frozenset())
    with pytest.raises(AcknowledgedDataLost):
        step(state, ev.LogWalked(9))
    down, effects = offline(state)
    assert isinstance(down, Offline)
    assert effects == (ev.Reject((), ErrorCode.NOT_LEADER_OR_FOLLOWER), ev.Abandon())
    batch = Batch(1, 1)
    assert step(down, ev.ProduceArrived(batch))[1] == (ev.Reject((batch,), ErrorCode.KAFKA_STORAGE_ERROR),)


OPENED = ev.SegmentOpened(0, 2)


@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize("opened_after", ["start", "walk", "manifest"])
def test_nothing_is_owned_before_manifest_and_segment_are_confirmed(opened_after: str, is_indexed: bool) -> None:
    state: State = Sealing(5, LIMITS, 0)
    batch = Batch(1, 1)
    refused = (ev.Reject((batch,), ErrorCode.NOT_LEADER_OR_FOLLOWER),)
    steps = [
        ("start", ev.DirectoriesSealed(frozenset()), (ev.WalkLog(), ev.OpenSegment(0))),
        ("walk", ev.LogWalked(9, is_indexed), (ev.WriteManifest(9),)),
        ("manifest", ev.ManifestWritten(), ()),
    ]
    begun = () if is_indexed else (ev.SaveRecoveredIndexes(),)
    for name, event, expected in steps:
        assert not isinstance(state, Writing)
        assert step(state, ev.ProduceArrived(batch)) == (state, refused)
        state, effects = step(state, event)
        assert effects == (begun if isinstance(state, Writing) else expected)
        if name == opened_after:
            state, effects = step(state, OPENED)
            assert effects == (begun if isinstance(state, Writing) else ())
    assert isinstance(state, Writing) and state.log.high_watermark == 9 and state.replicas == 2
    assert state.unindexed == (frozenset() if is_indexed else {ev.RECOVERED})


def test_no_second_segment_before_the_indexes_of_earlier_epochs_are_durable() -> None:
    state: State = Sealing(5, LIMITS, 0)
    for event in (
        ev.DirectoriesSealed(frozenset()),
        OPENED,
        ev.LogWalked(9, is_indexed=False),
        ev.ManifestWritten(),
        ev.ProduceArrived(Batch(1, LIMITS.preopen_bytes)),
    ):
        state, effects = step(state, event)
    state, effects = step(state, ev.WriteDue())
    assert not any(isinstance(effect, ev.OpenSegment) for effect in effects)
    state, effects = step(state, ev.SegmentSealed(ev.RECOVERED))
    assert effects == (ev.OpenSegment(1),)


def test_batches_of_one_iteration_are_one_append() -> None:
    state: State = writing()
    batches = [Batch(2, 1) for _ in range(3)]
    effects = [step(state, ev.ProduceArrived(batch))[1] for batch in batches]
    assert effects == [(ev.ScheduleWrite(),), (), ()]
    state, written = step(state, ev.WriteDue())
    assert written == (ev.WriteBatches(ev.Segment(5, 0, 100), tuple(batches)),)
    assert [batch.base_offset for batch in batches] == [100, 102, 104]
    state, acknowledged = step(state, ev.SegmentSynced(0, 106))
    assert acknowledged == (ev.Acknowledge(tuple(batches), 106),)


def test_appends_outstanding_are_bounded() -> None:
    state: State = writing()
    for expected in (1, 1, 0):
        step(state, ev.ProduceArrived(Batch(1, 1)))
        assert len(step(state, ev.WriteDue())[1]) == expected
    state, effects = step(state, ev.SegmentSynced(0, 101))
    assert [type(effect) for effect in effects] == [ev.Acknowledge, ev.WriteBatches]


def test_behind_its_own_append_a_partition_waits_while_many_of_others_are_on_their_way() -> None:
    state: State = writing()  # two appends may be outstanding
    batches = [Batch(1, 1) for _ in range(4)]
    step(state, ev.ProduceArrived(batches[0]))
    # However busy the others are: one that has nothing on its way writes at once.
    state, effects = step(state, ev.WriteDue(outstanding=50))
    assert effects == (ev.WriteBatches(ev.Segment(5, 0, 100), (batches[0],)),)
    for batch in batches[1:3]:
        step(state, ev.ProduceArrived(batch))
        state, effects = step(state, ev.WriteDue(outstanding=2))
        assert effects == ()
    # Its own append is durable: all that waited are the next one.
    state, effects = step(state, ev.SegmentSynced(0, 101, outstanding=50))
    assert effects[1:] == (ev.WriteBatches(ev.Segment(5, 0, 100), tuple(batches[1:3])),)
    # The others are done: the second append needs not wait for the first.
    step(state, ev.ProduceArrived(batches[3]))
    state, effects = step(state, ev.WriteDue(outstanding=1))
    assert effects == (ev.WriteBatches(ev.Segment(5, 0, 100), (batches[3],)),)


def test_the_next_segment_waits_until_the_full_one_is_durable() -> None:
    state: State = writing(segment_bytes=10)
    first, second = Batch(1, 9), Batch(1, 9)
    step(state, ev.ProduceArrived(first))
    step(state, ev.ProduceArrived(second))
    state, effects = step(state, ev.WriteDue())
    assert effects == (ev.WriteBatches(ev.Segment(5, 0, 100), (first,)), ev.OpenSegment(1))
    state, effects = step(state, ev.SegmentOpened(1))
    assert effects == ()
    state, effects = step(state, ev.SegmentSynced(0, 101))
    assert effects == (
        ev.Acknowledge((first,), 101),
        ev.SealSegment(ev.Segment(5, 0, 100), 101),
        ev.WriteBatches(ev.Segment(5, 1, 101), (second,)),
    )
    assert isinstance(state, Writing) and state.unindexed == {0}


def test_a_segment_takes_no_more_than_it_was_opened_for() -> None:
    limits = ev.Limits(segment_bytes=100, preopen_bytes=75)
    state: State = Writing(5, limits, InFlightBatches(100, segment_bytes_max=20), frozenset(), ev.Segment(5, 0, 100))
    first, second, third = (Batch(1, 8) for _ in range(3))
    for batch in (first, second, third):
        step(state, ev.ProduceArrived(batch))
    state, effects = step(state, ev.WriteDue())
    assert effects == (ev.WriteBatches(ev.Segment(5, 0, 100), (first, second)), ev.OpenSegment(1))
    state, effects = step(state, ev.SegmentOpened(1, bytes_max=40))
    state, effects = step(state, ev.SegmentSynced(0, 102))
    assert ev.WriteBatches(ev.Segment(5, 1, 102), (third,)) in effects
    state, effects = step(state, ev.SegmentSealed(0))
    longer = Batch(1, 21)
    step(state, ev.ProduceArrived(longer))
    state, effects = step(state, ev.WriteDue())
    assert effects == (ev.WriteBatches(ev.Segment(5, 1, 102), (longer,)),), "29 of 40 is below three quarters"
    step(state, ev.ProduceArrived(Batch(1, 1)))
    state, effects = step(state, ev.WriteDue())
    assert ev.OpenSegment(2) in effects, "30 of 40 is not"


def test_a_full_store_refuses_and_recovers() -> None:
    state: State = writing()
    batch, late = Batch(1, 1), Batch(1, 1)
    step(state, ev.ProduceArrived(batch))
    state, _ = step(state, ev.WriteDue())
    state, effects = step(state, ev.WriterBroken(0, is_full=True))
    assert effects == (ev.MendSegment(ev.Segment(5, 0, 100)),)
    state, effects = step(state, ev.SegmentMended(0, 100))
    assert isinstance(state, Blocked)
    assert ev.Reject((batch,), ErrorCode.KAFKA_STORAGE_ERROR) in effects and ev.RetryLater() in effects
    assert step(state, ev.ProduceArrived(late))[1] == (ev.Reject((late,), ErrorCode.KAFKA_STORAGE_ERROR),)
    state, effects = step(state, ev.RetryDue())
    assert effects == (ev.OpenSegment(1),)
    state, effects = step(state, ev.SegmentOpenFailed(1, is_full=True))
    assert isinstance(state, Blocked) and effects == (ev.RetryLater(),)
    state, effects = step(state, ev.RetryDue())
    assert effects == (ev.OpenSegment(2),)
    state, effects = step(state, ev.SegmentOpened(2))
    assert isinstance(state, Writing) and state.log.log_end_offset == 100


def test_while_the_store_is_away_batches_wait_and_are_written_when_it_is_back() -> None:
    state: State = AwaitingSegment(5, LIMITS, InFlightBatches(100), frozenset(), SegmentToOpen(1, is_asked=True))
    batch = Batch(1, 1)
    assert step(state, ev.ProduceArrived(batch)) == (state, ())
    state, effects = step(state, ev.SegmentOpenFailed(1))
    assert isinstance(state, AwaitingSegment) and effects == (ev.RetryLater(),)
    state, effects = step(state, ev.RetryDue())
    assert effects == (ev.OpenSegment(2),)  # a clean-up of the first may come late (rule 21)
    state, effects = step(state, ev.SegmentOpened(2, 3))
    assert effects == (ev.WriteBatches(ev.Segment(5, 2, 100), (batch,)),)


@pytest.mark.parametrize("is_full", [False, True])
def test_no_roll_is_asked_for_twice_however_often_opening_fails(is_full: bool) -> None:
    """Rule 21. And rule 4 goes by the last segment that was written, however many rolls were passed over behind it."""
    state: State = AwaitingSegment(5, LIMITS, InFlightBatches(100), frozenset({3}), SegmentToOpen(4))
    asked: list[int] = []
    for _ in range(4):
        state, effects = step(state, ev.RetryDue())
        asked += [effect.roll for effect in effects if isinstance(effect, ev.OpenSegment)]
        state, effects = step(state, ev.SegmentOpenFailed(asked[-1], is_full=is_full))
        assert ev.RetryLater() in effects
    assert asked == [4, 5, 6, 7]
    blocked = replace(state, unindexed=frozenset({2, 3}))  # type: ignore[call-arg]
    assert ev.OpenSegment(8) not in step(blocked, ev.RetryDue())[1]
    assert ev.OpenSegment(8) in step(state, ev.RetryDue())[1]


def test_a_next_segment_that_fails_while_this_one_is_written_or_mended_loses_its_roll() -> None:
    state: State = writing()
    state, _ = step(state, ev.ReplicasDue(0))
    for kind in ("writing", "mending"):
        asked = replace(state, next=NextSegment(NextStatus.OPENING))  # type: ignore[call-arg]
        if kind == "mending":
            asked, _ = step(asked, ev.WriterBroken(0))
        failed, _ = step(asked, ev.SegmentOpenFailed(1))
        assert isinstance(failed, Writing | Mending)
        assert (failed.next.status, failed.next.roll_after(failed.segment)) == (NextStatus.FAILED, 2)


def test_the_first_segment_may_have_a_higher_roll() -> None:
    """Opening it is tried with another roll each time; `SegmentOpened` says which one it is."""
    state: State = Recovering(5, LIMITS, 0, frozenset())
    state, _ = step(state, ev.SegmentOpened(3, 2))
    state, _ = step(state, ev.LogWalked(100))
    state, _ = step(state, ev.ManifestWritten())
    assert isinstance(state, Writing) and state.segment == ev.Segment(5, 3, 100)
    late: State = Opening(5, LIMITS, 100, is_recorded=True)
    late, _ = step(late, ev.SegmentOpened(2, 2))
    assert isinstance(late, Writing) and late.segment == ev.Segment(5, 2, 100)


@pytest.mark.parametrize("kind", [AwaitingSegment, Mending])
def test_what_waited_too_long_is_refused_for_good(kind: type[State]) -> None:
    log = InFlightBatches(100)
    written, waiting = Batch(2, 1), Batch(1, 1)
    log.place(written)
    log.place(waiting)
    state: State
    if kind is Mending:
        log.written.append(log.waiting.popleft())
        state = Mending(5, LIMITS, log, frozenset(), ev.Segment(5, 0, 100))
        expected: tuple[Batch, ...] = (waiting,)  # what was written may be in the log
    else:
        state = AwaitingSegment(5, LIMITS, log, frozenset(), SegmentToOpen(1, is_asked=True))
        expected = (written, waiting)
    same, effects = step(state, ev.WaitExpired())
    assert same == state and effects == (ev.Reject(expected, ErrorCode.KAFKA_STORAGE_ERROR),)
    assert log.log_end_offset == expected[0].base_offset


def replicated(replicas: int, **fields: object) -> Writing:
    limits = ev.Limits(10, 10, 2, replicas_wanted=3, replicas_min=2)
    state = Writing(5, limits, InFlightBatches(100), frozenset(), ev.Segment(5, 0, 100))
    return replace(state, replicas=replicas, is_short=replicas < 2, **fields)  # type: ignore[arg-type]


def test_what_a_mend_leaves_on_too_few_nodes_is_told_so_and_the_rest_refused() -> None:
    state: State = replicated(3)
    batches = [Batch(1, 2, is_acks_all=is_all) for is_all in (True, False, False, True, False)]
    for batch in batches:
        step(state, ev.ProduceArrived(batch))
    state, _ = step(state, ev.WriteDue())
    state, _ = step(state, ev.WriterBroken(0))
    state, effects = step(state, ev.SegmentMended(0, 102, replicas=1))
    assert effects[0] == ev.Acknowledge(tuple(batches[:2]), 102, is_short=True)
    state, effects = step(state, ev.SegmentOpened(1, replicas=1))
    assert isinstance(state, Writing) and state.is_short
    assert effects == (
        ev.Reject(tuple(batches[3:]), ErrorCode.NOT_ENOUGH_REPLICAS),
        ev.WriteBatches(ev.Segment(5, 1, 102), (batches[2],)),
    )
    assert state.log.log_end_offset == 103


def test_the_next_segment_is_thrown_away_with_the_lost_node() -> None:
    mending = Mending(
        5, LIMITS, InFlightBatches(100), frozenset(), ev.Segment(5, 0, 100), NextSegment(NextStatus.READY, 3)
    )
    state, effects = step(mending, ev.SegmentMended(0, 100, replicas=2))
    assert effects[1:] == (ev.DiscardSegment(0), ev.DiscardSegment(1), ev.OpenSegment(2))
    assert isinstance(state, AwaitingSegment)
    state, effects = step(mending, ev.SegmentMended(0, 100, replicas=3))
    assert isinstance(state, Writing) and state.segment.roll == 1


def test_an_empty_segment_gives_way_to_one_on_more_nodes() -> None:
    state: State = replicated(1)
    state, effects = step(state, ev.ReplicasDue(0))
    assert effects == (ev.OpenSegment(1),)
    assert step(state, ev.ReplicasDue(0)) == (state, ())
    state, effects = step(state, ev.SegmentOpened(1, replicas=1))
    assert isinstance(state, Writing) and effects == (ev.DiscardSegment(1),)
    state, effects = step(state, ev.ReplicasDue(0))
    assert effects == (ev.OpenSegment(2),), "a name is not used twice"
    state, effects = step(state, ev.SegmentOpened(2, replicas=3))
    assert effects == (ev.DiscardSegment(0),)
    assert isinstance(state, Writing) and (state.segment.roll, state.is_short) == (2, False)


def test_appends_go_on_while_the_next_segment_is_opened_ahead_of_need() -> None:
    """By age, or for more nodes: nothing waits for the store to make a file."""
    for hint in (ev.RollDue(0), ev.ReplicasDue(0)):
        state: State = replicated(2)
        first, second, third = (Batch(1, 1) for _ in range(3))
        step(state, ev.ProduceArrived(first))
        state, _ = step(state, ev.WriteDue())
        state, effects = step(state, hint)
        assert effects == (ev.OpenSegment(1),)
        step(state, ev.ProduceArrived(second))
        state, effects = step(state, ev.WriteDue())
        assert effects == (ev.WriteBatches(ev.Segment(5, 0, 100), (second,)),)
        state, effects = step(state, ev.SegmentOpened(1, replicas=3))
        assert effects == ()
        step(state, ev.ProduceArrived(third))
        state, effects = step(state, ev.SegmentSynced(0, 102))
        assert effects[1:] == (
            ev.SealSegment(ev.Segment(5, 0, 100), 102),
            ev.WriteBatches(ev.Segment(5, 1, 102), (third,)),
        )


def test_a_search_for_nodes_that_fails_leaves_the_segment_as_it_is() -> None:
    state: State = replicated(2)
    state, _ = step(state, ev.ReplicasDue(0))
    state, effects = step(state, ev.SegmentOpenFailed(1))
    assert isinstance(state, Writing) and effects == () and not state.is_roll_due
    state, effects = step(state, ev.ReplicasDue(0))
    assert effects == (ev.OpenSegment(2),)


def test_a_higher_minimum_makes_an_open_segment_short() -> None:
    limits = ev.Limits(10, 10, 2, replicas_wanted=3, replicas_min=3)
    state, effects = step(replicated(2), ev.LimitsChanged(limits))
    assert isinstance(state, Writing) and state.is_short and effects == ()


def test_a_broken_writer_acknowledges_what_lies_inside_and_writes_the_rest_again() -> None:
    state: State = writing()
    batches = [Batch(1, 2) for _ in range(3)]
    for batch in batches:
        step(state, ev.ProduceArrived(batch))
    state, _ = step(state, ev.WriteDue())
    state, _ = step(state, ev.WriterBroken(0))
    state, effects = step(state, ev.SegmentMended(0, 102))
    assert effects == (
        ev.Acknowledge(tuple(batches[:2]), 102),
        ev.SealSegment(ev.Segment(5, 0, 100), 102),
        ev.OpenSegment(1),
    )
    state, effects = step(state, ev.SegmentOpened(1))
    assert effects == (ev.WriteBatches(ev.Segment(5, 1, 102), (batches[2],)),)


def test_a_mended_end_below_the_high_watermark_is_loud() -> None:
    state: State = writing()
    step(state, ev.ProduceArrived(Batch(1, 2)))
    state, _ = step(state, ev.WriteDue())
    state, _ = step(state, ev.SegmentSynced(0, 101))
    state, _ = step(state, ev.WriterBroken(0))
    with pytest.raises(AcknowledgedDataLost):
        step(state, ev.SegmentMended(0, 100))


def test_a_newer_owner_refuses_what_is_not_durable() -> None:
    batch = Batch(1, 1)
    owned = writing()
    step(owned, ev.ProduceArrived(batch))
    state, effects = step(owned, ev.OwnershipLost())
    assert isinstance(state, Fenced)
    assert effects == (ev.Reject((batch,), ErrorCode.NOT_LEADER_OR_FOLLOWER), ev.Abandon())
    assert step(state, ev.SegmentSynced(0, 101)) == (state, ())


def test_a_stop_drains_seals_and_releases() -> None:
    state: State = writing()
    batch, late = Batch(1, 2), Batch(1, 2)
    step(state, ev.ProduceArrived(batch))
    state, effects = step(state, ev.StopRequested())
    assert isinstance(state, Draining)
    assert effects == (ev.WriteBatches(ev.Segment(5, 0, 100), (batch,)),)
    assert step(state, ev.ProduceArrived(late))[1] == (ev.Reject((late,), ErrorCode.NOT_LEADER_OR_FOLLOWER),)
    state, effects = step(state, ev.SegmentSynced(0, 101))
    assert effects == (ev.Acknowledge((batch,), 101), ev.SealSegment(ev.Segment(5, 0, 100), 101))
    state, effects = step(state, ev.SegmentSealed(0))
    assert isinstance(state, Releasing) and effects == (ev.SealOwnDirectory(),)
    state, effects = step(state, ev.DirectoryReleased())
    assert isinstance(state, Released) and effects == (ev.Abandon(),)


def test_an_idle_partition_is_woken_by_a_batch() -> None:
    state: State = writing()
    step(state, ev.ProduceArrived(Batch(1, 2)))
    state, _ = step(state, ev.WriteDue())
    assert step(state, ev.IdleDue(0)) == (state, ())
    state, _ = step(state, ev.SegmentSynced(0, 101))
    state, effects = step(state, ev.IdleDue(0))
    assert isinstance(state, Idle)
    assert effects == (ev.SealSegment(ev.Segment(5, 0, 100), 101),)
    batch = Batch(1, 2)
    state, effects = step(state, ev.ProduceArrived(batch))
    assert effects == (ev.OpenSegment(1),)
    state, effects = step(state, ev.SegmentOpened(1))
    assert effects == (ev.WriteBatches(ev.Segment(5, 1, 101), (batch,)),)


def test_a_resting_segment_whose_writer_broke_is_mended_before_anything_follows_it() -> None:
    """Rule 4: were it shorter than what was acknowledged, nothing behind it may be."""
    state: State = writing()
    step(state, ev.ProduceArrived(Batch(1, 2)))
    state, _ = step(state, ev.WriteDue())
    state, _ = step(state, ev.SegmentSynced(0, 101))
    state, effects = step(state, ev.WriterBroken(0, is_resting=True))
    assert isinstance(state, Mending) and effects == (ev.MendSegment(ev.Segment(5, 0, 100)),)
    rested, effects = step(state, ev.SegmentMended(0, 101, 2))
    assert isinstance(rested, Idle) and ev.SealSegment(ev.Segment(5, 0, 100), 101) in effects
    assert step(rested, ev.ProduceArrived(Batch(1, 1)))[1] == (ev.OpenSegment(1),)
    with pytest.raises(AcknowledgedDataLost):
        step(state, ev.SegmentMended(0, 100, 2))


def test_a_batch_that_comes_while_a_resting_segment_is_mended_gets_the_next_one() -> None:
    state, _ = step(writing(), ev.WriterBroken(0, is_resting=True))
    state, effects = step(state, ev.ProduceArrived(Batch(1, 1)))
    assert effects == ()
    state, effects = step(state, ev.SegmentMended(0, 100, 2))
    assert isinstance(state, AwaitingSegment) and effects[-1] == ev.OpenSegment(1)


def test_settings_reach_every_state() -> None:
    limits = ev.Limits(1, 1, 1)
    for state in (
        writing(),
        Claiming(5, LIMITS, 0),
        Mending(5, LIMITS, InFlightBatches(0), frozenset(), ev.Segment(5, 0, 0)),
    ):
        changed, effects = step(state, ev.LimitsChanged(limits))
        assert changed.limits == limits and type(changed) is type(state) and effects == ()


def test_what_never_was_written_cannot_become_durable() -> None:
    with pytest.raises(ImpossibleEvent):
        step(writing(), ev.SegmentSynced(0, 101))
