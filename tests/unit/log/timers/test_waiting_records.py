"""Records that wait: in one order, whether they came alone, from a run, or as a whole hold."""

from __future__ import annotations

from struct import Struct

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.log.timers.announcements import HeldColumns, HeldRecord, PackedHeld, Position
from bmq.log.timers.waiting_records import HOLD_MIN, Hold, Pending, WaitingRecords, held_at, pending_of

pytestmark = pytest.mark.unit

ENTRY = Struct(">qqii")
DUES = st.integers(0, 30)
LAST = Position(2**40, 0)


def hold_of(records: list[tuple[int, int]], base_offset: int, hold_offset: int) -> Hold:
    """Of (due time, offset delta)."""
    entries = b"".join(ENTRY.pack(due_ms, 0, delta, 0) for due_ms, delta in records)
    return Hold(HeldColumns(entries), base_offset, hold_offset)


def first_of(waiting: WaitingRecords) -> Pending:
    (number,) = waiting.heads(LAST, 1)
    waiting.drop(1)
    return pending_of(number)


class Waiting(RuleBasedStateMachine):
    """Beside a plain list. Names grow, as a log's offsets do."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = WaitingRecords()
        self.expected: list[Pending] = []
        self.next_offset = 10

    @rule(dues_ms=st.lists(DUES, min_size=1, max_size=20), distance=st.integers(1, 2), gap=st.integers(1, 3))
    def hold(self, dues_ms: list[int], distance: int, gap: int) -> None:
        base = self.next_offset + distance
        hold = hold_of([(due_ms, place * gap) for place, due_ms in enumerate(dues_ms)], base, self.next_offset)
        records = [Pending(due_ms, base + place * gap, self.next_offset) for place, due_ms in enumerate(dues_ms)]
        assert list(hold) == records == [hold[place] for place in range(len(hold))] and hold[1:] == records[1:]
        assert hold.first == min(record.position for record in records)
        self.waiting.add_hold(hold)
        self.expected += records
        self.next_offset = base + len(dues_ms) * gap

    @rule(due_ms=DUES)
    def of_a_run(self, due_ms: int) -> None:
        record = Pending(due_ms, self.next_offset, self.next_offset)
        self.waiting.add(record)
        self.expected.append(record)
        self.next_offset += 1

    @precondition(lambda self: self.expected)
    @rule(back=st.booleans())
    def first(self, back: bool) -> None:
        record = first_of(self.waiting)
        assert record == min(self.expected)
        if back:
            self.waiting.add(record)
        else:
            self.expected.remove(record)

    @rule(due_ms=DUES, offset=st.integers(0, 60), count=st.integers(1, 9), drop=st.booleans())
    def heads(self, due_ms: int, offset: int, count: int, drop: bool) -> None:
        before = Position(due_ms, offset)
        found = list(map(pending_of, self.waiting.heads(before, count)))
        assert found == sorted(record for record in self.expected if record.position < before)[:count]
        if drop:
            self.waiting.drop(len(found))
            self.expected = [record for record in self.expected if record not in found]

    @rule(due_ms=DUES, count=st.integers(0, 9))
    def open_due(self, due_ms: int, count: int) -> None:
        before = Position(due_ms, 0)
        if not self.waiting.open_due(before, count):
            assert all(hold.first >= before for hold in self.waiting._holds.values())

    @rule(places=st.lists(DUES, max_size=4))
    def loaded(self, places: list[int]) -> None:
        records = [Pending(due_ms, self.next_offset + n, self.next_offset + n) for n, due_ms in enumerate(places)]
        self.waiting.load(record.position for record in records)
        self.expected += records
        self.next_offset += len(places)

    @rule(due_ms=DUES, offset=st.integers(0, 60))
    def by_place(self, due_ms: int, offset: int) -> None:
        place = Position(due_ms, offset)
        found = [record for record in self.expected if record.position == place]
        assert self.waiting.has(place) is bool(found)
        assert self.waiting.pop(place) == (found[0] if found else None)
        self.expected = [record for record in self.expected if record not in found]

    @precondition(lambda self: self.expected)
    @rule(choice=st.integers(0))
    def cancelled(self, choice: int) -> None:
        record = self.expected.pop(choice % len(self.expected))
        assert self.waiting.has(record.position) and self.waiting.pop(record.position) == record
        assert not self.waiting.has(record.position)

    @rule(count=st.integers(0, 9))
    def open_some(self, count: int) -> None:
        self.waiting.open_some(count)

    @rule(after=st.tuples(DUES, st.integers(0, 60)))
    def behind(self, after: tuple[int, int]) -> None:
        assert list(self.waiting.behind(Position(*after))) == sorted(
            record.position for record in self.expected if record.position > after
        )

    @rule()
    def taken_over(self) -> None:
        """As by `unseal`: what waits stands behind what waited before."""
        newer, self.waiting = self.waiting, WaitingRecords()
        self.waiting.take_over(newer)

    @rule()
    def cleared(self) -> None:
        self.waiting.clear()
        self.expected = []

    @invariant()
    def as_expected(self) -> None:
        assert len(self.waiting) == len(self.expected)
        assert self.waiting.first == min(self.expected, default=None)


TestWaiting = Waiting.TestCase
TestWaiting.settings = settings(stateful_step_count=40)


def test_a_long_hold_becomes_numbers_when_it_is_next() -> None:
    waiting = WaitingRecords()
    later = [(1_000 + place, place) for place in range(HOLD_MIN)]
    waiting.add_hold(hold_of(later, 11, 10))
    waiting.add(Pending(5, 9, 9))
    assert first_of(waiting) == Pending(5, 9, 9) and len(waiting._numbers) == 0
    assert waiting.first == Pending(1_000, 11, 10) and len(waiting._numbers) == 0
    assert first_of(waiting) == Pending(1_000, 11, 10) and len(waiting._numbers) == HOLD_MIN - 1


def test_holds_that_were_opened_leave_nothing_behind() -> None:
    waiting = WaitingRecords()
    for number in range(50):
        waiting.add_hold(hold_of([(7, place) for place in range(HOLD_MIN)], number * 100 + 1, number * 100))
        waiting.open_some(1)
    assert not waiting._firsts and not waiting._holds and len(waiting) == 50 * HOLD_MIN


def test_records_of_a_batch_that_was_split_in_python() -> None:
    records = [HeldRecord(9, 0, 2, b"x"), HeldRecord(8, 0, 5, b"")]
    assert held_at(records, 100, 99) == [Pending(9, 102, 99), Pending(8, 105, 99)]
    packed = PackedHeld(memoryview(b"".join(ENTRY.pack(*one[:3], len(one.body)) for one in records)), memoryview(b"x"))
    hold = held_at(packed, 100, 99)
    assert isinstance(hold, Hold) and list(hold) == [Pending(9, 102, 99), Pending(8, 105, 99)]
    assert held_at(PackedHeld(memoryview(b""), memoryview(b"")), 100, 99) == []
