"""The window of a share partition beside a dictionary with an entry for each record, whatever the order of events."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.coordinator.config import RecordLimits
from bmq.coordinator.share_state.decisions import (
    Ack,
    Given,
    Settled,
    Span,
    Wanted,
    acknowledge,
    acquire,
    archive,
    held_by,
    past_holes,
    release,
)
from bmq.coordinator.share_state.window import ACKNOWLEDGED, ACQUIRED, ARCHIVED, AVAILABLE, SPAN_MAX, Window
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import BATCH_OPTIMIZED, RECORD_LIMIT, AckType
from bmq.protocol.share_state_records import LockedRecords, StateBatch

pytestmark = pytest.mark.unit

LIMIT = 5
LOG_END = 60
TERMS = RecordLimits(LIMIT, 30)
MEMBERS = ("a", "b")
DONE = (ACKNOWLEDGED, ARCHIVED)


@dataclass
class Entry:
    """A record that was given at least once, or archived."""

    state: int = AVAILABLE
    count: int = 0
    member: str | None = None


def write_given(window: Window, given: list[Given], member_id: str, deadline_ms: float = 0) -> None:
    """As the shard does it when the record of an acquisition is durable."""
    for one in given:
        window.apply(
            StateBatch(
                first_offset=one.first,
                last_offset=one.last,
                delivery_state=AVAILABLE,
                delivery_count=one.delivery_count,
            )
        )
    for one in given:
        window.lock(LockedRecords(first_offset=one.first, last_offset=one.last, member_id=member_id), deadline_ms)
    window.strip()


def write_settled(window: Window, settled: Settled) -> None:
    for batch in settled.batches:
        window.apply(batch)
    window.strip()


class WindowHistory(RuleBasedStateMachine):
    """Method: `records` is the model; appends in flight are kept in `waiting` and become durable, or fail, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window(0)
        self.records: dict[int, Entry] = {}
        self.start = 0
        self.end = 0
        self.waiting: list[tuple[set[int], Any]] = []

    @property
    def reserved(self) -> set[int]:
        return set().union(*(offsets for offsets, _ in self.waiting))

    def entry(self, offset: int) -> Entry:
        return self.records.setdefault(offset, Entry())

    def begin(self, spans: list[Span], durable: Any) -> None:
        offsets = {offset for span in spans for offset in range(span.first, span.last + 1)}
        for span in spans:
            self.window.reserve(*span)
        self.end = max([self.end, *(offset + 1 for offset in offsets)])
        self.waiting.append((offsets, durable))

    def strip(self) -> None:
        while self.start < self.end and self.records.get(self.start, Entry()).state in DONE:
            if self.start in self.reserved:
                break
            self.start += 1

    @rule(
        first=st.integers(0, LOG_END),
        sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
        records_max=st.integers(1, 20),
        mode=st.sampled_from((BATCH_OPTIMIZED, RECORD_LIMIT)),
        member_id=st.sampled_from(MEMBERS),
    )
    def acquire(self, first: int, sizes: list[int], records_max: int, mode: int, member_id: str) -> None:
        batches = []
        for size in sizes:
            batches.append(Span(first, first + size - 1))
            first += size
        given = acquire(self.window, batches, Wanted(records_max, 4, mode), TERMS)
        offsets = [offset for one in given for offset in range(one.first, one.last + 1)]
        assert offsets == sorted(set(offsets))
        read = {offset for batch in batches for offset in range(batch.first, batch.last + 1)}
        free = [
            offset
            for offset in sorted(read)
            if offset >= self.start and self.records.get(offset, Entry()).state == AVAILABLE
            if offset not in self.reserved
        ]
        locked = sum(entry.state == ACQUIRED and offset >= self.start for offset, entry in self.records.items())
        pending = {o for o in self.reserved if o >= self.start and self.entry(o).state == AVAILABLE}
        room = TERMS.record_locks_max - locked - len(pending)
        assert set(offsets) <= set(free) and len(offsets) <= max(room, 0)
        if mode == RECORD_LIMIT:
            assert len(offsets) <= records_max
        assert bool(offsets) == bool(free and room > 0)
        for one in given:
            for offset in range(one.first, one.last + 1):
                assert self.records.get(offset, Entry()).count + 1 == one.delivery_count
        if given:
            self.begin([Span(one.first, one.last) for one in given], ("given", given, member_id))

    @rule(
        first=st.integers(0, LOG_END),
        types=st.lists(st.sampled_from(list(AckType)), min_size=1, max_size=8),
        is_one=st.booleans(),
        member_id=st.sampled_from(MEMBERS),
    )
    def acknowledge(self, first: int, types: list[int], is_one: bool, member_id: str) -> None:
        last = first + len(types) - 1
        kinds = [types[0]] * len(types) if is_one else types
        mine = [
            offset not in self.reserved
            and self.entry(offset).state == ACQUIRED
            and self.entry(offset).member == member_id
            for offset in range(max(first, self.start), last + 1)
        ]
        try:
            settled = acknowledge(self.window, [Ack(first, last, types[:1] if is_one else types)], member_id, LIMIT)
        except KafkaError as refused:
            assert not all(mine)
            is_past = last >= self.end > self.start
            assert refused.code is (ErrorCode.OFFSET_OUT_OF_RANGE if is_past else ErrorCode.INVALID_RECORD_STATE)
            return
        assert all(mine)
        spans = [Span(batch.first_offset, batch.last_offset) for batch in settled.batches]
        said = dict(zip(range(first, last + 1), kinds, strict=True))
        assert {o for span in (*spans, *settled.renewed) for o in range(span.first, span.last + 1)} == {
            offset for offset in said if offset >= self.start
        }
        for batch in settled.batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                count = self.entry(offset).count
                released = ARCHIVED if count >= LIMIT else AVAILABLE
                wanted = {AckType.ACCEPT: ACKNOWLEDGED, AckType.RELEASE: released}.get(AckType(said[offset]), ARCHIVED)
                assert (batch.delivery_state, batch.delivery_count) == (wanted, count)
        if spans:
            self.begin(spans, ("settled", settled))

    @rule(first=st.integers(0, LOG_END), length=st.integers(1, 20))
    def archive(self, first: int, length: int) -> None:
        batches = archive(self.window, [Span(first, first + length - 1)])
        offsets = {o for batch in batches for o in range(batch.first_offset, batch.last_offset + 1)}
        assert offsets == {
            offset
            for offset in range(max(first, self.start), first + length)
            if offset not in self.reserved and self.records.get(offset, Entry()).state == AVAILABLE
        }
        if batches:
            spans = [Span(batch.first_offset, batch.last_offset) for batch in batches]
            self.begin(spans, ("settled", Settled(batches, [])))

    @rule(member_id=st.sampled_from(MEMBERS))
    def release_all(self, member_id: str) -> None:
        locks = self.window.holds.numbers_of(lambda holder: holder.member_id == member_id)
        spans = held_by(self.window, locks)
        assert {offset for span in spans for offset in range(span.first, span.last + 1)} == {
            offset
            for offset, entry in self.records.items()
            if offset >= self.start and offset not in self.reserved
            if entry.state == ACQUIRED and entry.member == member_id
        }
        if spans:
            self.begin(spans, ("settled", Settled(release(self.window, spans, LIMIT), [])))

    @precondition(lambda self: self.waiting)
    @rule()
    def durable(self) -> None:
        _, change = self.waiting.pop(0)
        if change[0] == "given":
            write_given(self.window, change[1], change[2])
            for one in change[1]:
                for offset in range(one.first, one.last + 1):
                    self.records[offset] = Entry(ACQUIRED, one.delivery_count, change[2])
        else:
            write_settled(self.window, change[1])
            for batch in change[1].batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    self.records[offset] = Entry(batch.delivery_state, batch.delivery_count)
        self.strip()

    @precondition(lambda self: self.waiting)
    @rule()
    def fail(self) -> None:
        offsets, _ = self.waiting.pop()
        for offset in offsets:
            self.window.free(offset, offset)

    @rule(start=st.integers(0, LOG_END))
    def advance(self, start: int) -> None:
        self.window.advance(start)
        self.window.strip()
        self.start = max(self.start, start)
        self.end = max(self.end, self.start)
        self.strip()

    @invariant()
    def window_is_the_model(self) -> None:
        window = self.window
        assert (window.start, window.end) == (self.start, self.end)
        held: dict[int, int] = {}
        for at in range(len(window.states)):
            entry = self.records.get(window.start + at, Entry())
            assert window.states[at] & 0x7F == entry.state
            assert bool(window.states[at] & 0x80) == (window.start + at in self.reserved)
            assert window.counts[at] == entry.count
            number = window.numbers[at]
            assert (window.holds.holder(number).member_id if number else None) == entry.member
            held[number] = held.get(number, 0) + 1
        held.pop(0, None)
        assert {number: window.holds.held(number) for number in held} == held and window.holds.locks == len(held)
        pending = sum(state == 0x80 for state in window.states)
        assert window.locked == sum(held.values()) + pending
        assert window.done == sum(
            self.records[offset].state in DONE and offset not in self.reserved
            for offset in self.records
            if offset >= self.start
        )


TestWindowHistory = WindowHistory.TestCase


def given_again(window: Window, times: int, batch: Span) -> None:
    """A record batch is given and released so often."""
    for _ in range(times):
        given = acquire(window, [batch], Wanted(1000, 1000, BATCH_OPTIMIZED), RecordLimits(LIMIT, 2000))
        write_given(window, given, "a")
        write_settled(window, Settled(release(window, [batch], LIMIT), []))


def test_records_that_were_given_often_are_given_in_ever_smaller_parts_and_at_last_alone() -> None:
    window, batch = Window(0), Span(0, 511)
    given_again(window, 3, batch)
    sizes = []
    for _ in range(2):
        given = acquire(window, [batch], Wanted(1000, 1000, BATCH_OPTIMIZED), RecordLimits(LIMIT, 2000))
        write_given(window, given, "a")
        sizes.append([(one.last - one.first + 1, one.delivery_count) for one in given])
    assert sizes == [[(256, 4)], [(256, 4)]]
    write_settled(window, Settled(release(window, [batch], LIMIT), []))
    for number in range(3):
        given = acquire(window, [batch], Wanted(1000, 1000, BATCH_OPTIMIZED), RecordLimits(LIMIT, 2000))
        assert given == [Given(number, number, LIMIT)]
        write_given(window, given, "a")


def test_an_often_given_record_does_not_come_with_others() -> None:
    window = Window(0)
    given_again(window, 4, Span(5, 5))
    wanted, terms = Wanted(1000, 1, BATCH_OPTIMIZED), RecordLimits(LIMIT, 2000)
    assert acquire(window, [Span(0, 9)], wanted, terms) == [Given(0, 4, 1)]
    write_given(window, [Given(0, 4, 1)], "a")
    assert acquire(window, [Span(0, 9)], wanted, terms) == [Given(5, 5, 5)]


@pytest.mark.parametrize(
    ("records_max", "batch_size", "mode", "expected"),
    [
        (10, 1, BATCH_OPTIMIZED, [Given(0, 7, 1), Given(8, 15, 1)]),
        (8, 1, BATCH_OPTIMIZED, [Given(0, 7, 1)]),
        (100, 16, BATCH_OPTIMIZED, [Given(0, 15, 1), Given(16, 23, 1)]),
        (100, 0, BATCH_OPTIMIZED, [Given(0, 7, 1), Given(8, 15, 1), Given(16, 23, 1)]),
        (10, 1, RECORD_LIMIT, [Given(0, 9, 1)]),
        (0, 1, BATCH_OPTIMIZED, []),
        (-1, 1, RECORD_LIMIT, []),
    ],
)
def test_a_member_gets_whole_batches_or_as_many_records_as_it_asked_for(
    records_max: int, batch_size: int, mode: int, expected: list[Given]
) -> None:
    batches = [Span(0, 7), Span(8, 15), Span(16, 23)]
    assert acquire(Window(0), batches, Wanted(records_max, batch_size, mode), RecordLimits(LIMIT, 2000)) == expected


def test_locks_are_limited_and_not_how_far_they_lie_apart() -> None:
    window, terms = Window(0), RecordLimits(LIMIT, 10)
    write_given(window, acquire(window, [Span(0, 99)], Wanted(100, 1, BATCH_OPTIMIZED), terms), "a")
    assert (window.locked, window.end) == (10, 10)
    assert acquire(window, [Span(0, 99)], Wanted(100, 1, BATCH_OPTIMIZED), terms) == []
    write_settled(window, acknowledge(window, [Ack(1, 9, [AckType.ACCEPT])], "a", LIMIT))
    given = acquire(window, [Span(0, 99)], Wanted(100, 1, BATCH_OPTIMIZED), terms)
    assert given == [Given(10, 18, 1)], "the record that is still locked at the start holds up no others"


def test_a_hole_in_the_log_takes_no_memory() -> None:
    window = Window(5)
    assert past_holes(window, 5, [Span(5, 10**15), Span(10**15 + 2, 10**16)]) == 10**15 + 1
    assert past_holes(window, 5, [Span(6, 9)]) == 5
    write_given(window, [Given(5, 6, 1)], "a")
    assert past_holes(window, 5, [Span(5, 9)]) == 5, "records are out there"
    (hole,) = archive(window, [Span(7, 10**16)])
    window.apply(hole)
    assert len(window.states) == SPAN_MAX


@pytest.mark.parametrize(
    ("acks", "code"),
    [
        ([Ack(3, 2, [1])], ErrorCode.INVALID_REQUEST),
        ([Ack(5, 6, [1]), Ack(0, 1, [1])], ErrorCode.INVALID_REQUEST),
        ([Ack(0, 2, [1, 1])], ErrorCode.INVALID_REQUEST),
        ([Ack(0, 2, [])], ErrorCode.INVALID_REQUEST),
        ([Ack(0, 2, [9])], ErrorCode.INVALID_REQUEST),
        ([Ack(0, 10, [1])], ErrorCode.OFFSET_OUT_OF_RANGE),
        ([Ack(-2, 1, [1])], ErrorCode.INVALID_REQUEST),
        ([Ack(0, 2, [1]), Ack(2, 3, [1])], ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_bad_acknowledgements_have_an_error_and_change_nothing(acks: list[Ack], code: ErrorCode) -> None:
    window = Window(0)
    write_given(window, [Given(0, 9, 1)], "a")
    with pytest.raises(KafkaError) as refused:
        acknowledge(window, acks, "a", LIMIT)
    assert refused.value.code is code
    assert window.locked == 10


@pytest.mark.parametrize(("each", "bytes_per_record_max"), [(500, 6), (1, 50)])
def test_a_lock_takes_some_forty_bytes_and_a_record_four(each: int, bytes_per_record_max: int) -> None:
    window = Window(0)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for first in range(0, 10_000, each):
        write_given(window, [Given(first, first + each - 1, 1)], f"member-{first // each % 200}", 30_000 + first)
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert window.locked == 10_000 and window.holds.locks == 10_000 // each
    assert taken < 10_000 * bytes_per_record_max


def test_a_window_without_locks_has_given_their_memory_back() -> None:
    def lock_and_settle() -> Window:
        window = Window(0)
        write_given(window, [Given(first, first, 1) for first in range(10_000)], "a")
        write_settled(window, acknowledge(window, [Ack(0, 9_999, [AckType.ACCEPT])], "a", LIMIT))
        return window

    lock_and_settle()  # what the first use keeps for good belongs to no window
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    window = lock_and_settle()
    gc.collect()
    left = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert (window.start, window.locked) == (10_000, 0)
    assert left < 4_000
