"""The locks and delays of a window beside a dictionary of them, whatever the order of events."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.coordinator.runtime.moment import NEVER_MS
from bmq.coordinator.share_state.holder import holder_of
from bmq.coordinator.share_state.holds import HOLDS_MAX, RETRY_MS, Holds

pytestmark = pytest.mark.unit


@dataclass
class Hold:
    first: int
    held: int
    deadline_ms: float
    detail: str | int
    is_taken: bool = False


class HoldsHistory(RuleBasedStateMachine):
    """Method: `kept` is the model, by number. `taken` ones are not taken again before the next retry."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = Holds()
        self.kept: dict[int, Hold] = {}
        self.now_ms = 0.0

    @rule(size=st.integers(1, 9), left_ms=st.integers(0, 40), member=st.sampled_from("abc"))
    def lock(self, size: int, left_ms: int, member: str) -> None:
        number = self.holds.lock(size, size, self.now_ms + left_ms, holder_of(member, 1, 2, 3))
        self._new(number, Hold(size, size, self.now_ms + left_ms, member))

    @rule(size=st.integers(1, 9), left_ms=st.integers(0, 40))
    def delay(self, size: int, left_ms: int) -> None:
        number = self.holds.delay(size, size, self.now_ms + left_ms, 1_000 + left_ms)
        self._new(number, Hold(size, size, self.now_ms + left_ms, 1_000 + left_ms))

    def _new(self, number: int, hold: Hold) -> None:
        assert number not in self.kept
        self.kept[number] = hold

    @precondition(lambda self: self.kept)
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.kept)))
        hold = self.kept[number]
        count = data.draw(st.integers(1, hold.held))
        self.holds.end(number, count)
        hold.held -= count
        if not hold.held:
            del self.kept[number]

    @rule()
    def renumber(self) -> None:
        new = self.holds.renumber()
        assert sorted(new) == sorted(self.kept) and sorted(new.values()) == list(range(1, len(new) + 1))
        self.kept = {new[number]: hold for number, hold in self.kept.items()}

    @rule(passed_ms=st.integers(0, 30), count_max=st.integers(1, 4))
    def take(self, passed_ms: int, count_max: int) -> None:
        self.now_ms += passed_ms
        due = {number for number, hold in self.kept.items() if hold.deadline_ms <= self.now_ms}
        found = self.holds.take_due(self.now_ms, count_max)
        assert set(found) <= due and len(set(found)) == len(found) <= count_max
        assert [self.kept[one].deadline_ms for one in found] == sorted(self.kept[one].deadline_ms for one in found)
        for number in found:
            self.kept[number].is_taken = True

    @rule()
    def retry(self) -> None:
        self.now_ms += RETRY_MS
        due = {number for number, hold in self.kept.items() if hold.deadline_ms <= self.now_ms}
        assert not due or self.holds.next_due_ms <= self.now_ms
        assert set(self.holds.take_due(self.now_ms, HOLDS_MAX)) == due
        for number in due:
            self.kept[number].is_taken = True

    @rule()
    def fork(self) -> None:
        fork = self.holds.fork()
        for number in self.kept:
            fork.end(number, 1)
        self.is_the_model()

    @invariant()
    def is_the_model(self) -> None:
        holds = self.holds
        locks = {number: hold for number, hold in self.kept.items() if isinstance(hold.detail, str)}
        delays = {number: hold for number, hold in self.kept.items() if isinstance(hold.detail, int)}
        assert (holds.count, holds.locks, holds.delays) == (len(self.kept), len(locks), len(delays))
        assert holds.locked == sum(hold.held for hold in locks.values())
        assert holds.delayed == sum(hold.held for hold in delays.values())
        for number, hold in self.kept.items():
            assert holds.is_lock(number) == (number in locks)
            assert (holds.held(number), holds.deadline_ms(number)) == (hold.held, hold.deadline_ms)
            assert holds.range(number)[0] == hold.first
        assert {number: holds.holder(number).member_id for number in locks} == {
            number: hold.detail for number, hold in locks.items()
        }
        assert {number: holds.due_ms(number) for number in delays} == {
            number: hold.detail for number, hold in delays.items()
        }
        assert sorted(holds.numbers_of(lambda holder: holder.member_id == "a")) == sorted(
            number for number, hold in locks.items() if hold.detail == "a"
        )
        assert sum(lock.held for lock in holds.all_locks()) == holds.locked
        fresh = [hold.deadline_ms for hold in self.kept.values() if not hold.is_taken]
        assert holds.next_due_ms <= max(min(fresh, default=NEVER_MS), self.now_ms + RETRY_MS)
        assert self.kept or holds.next_due_ms == NEVER_MS


TestHoldsHistory = HoldsHistory.TestCase


def test_the_same_holder_is_one_object() -> None:
    assert holder_of("a", 1, 2, 3) is holder_of("a", 1, 2, 3)
    keys = (("a", 1, 2, 3), ("b", 1, 2, 3), ("a", 0, 2, 3), ("a", 1, 0, 3), ("a", 1, 2, 4))
    holders = [holder_of(*key) for key in keys]
    assert len(set(holders)) == len(keys)
    assert [(one.member_id, one.node_id, one.node_epoch, one.session) for one in holders] == list(keys)


def test_locks_of_one_deadline_are_taken_a_part_at_a_time() -> None:
    holds = Holds()
    numbers = [holds.lock(at, 1, 50.0, holder_of("a", 1, 2, 3)) for at in range(1_000)]
    assert holds.take_due(49.9, 400) == [] and holds.next_due_ms == 50.0
    found = [holds.take_due(50.0, 400) for _ in range(4)]
    assert [len(part) for part in found] == [400, 400, 200, 0]
    assert sorted(number for part in found for number in part) == numbers
    assert holds.next_due_ms == 49.9 + RETRY_MS, "none has ended"
    for number in numbers:
        holds.end(number, 1)
    assert holds.next_due_ms == NEVER_MS


def test_numbers_are_bounded_and_used_again() -> None:
    holds, holder = Holds(), holder_of("a", 1, 2, 3)
    for at in range(HOLDS_MAX):
        holds.lock(at, 1, float(at), holder)
    with pytest.raises(OverflowError):
        holds.lock(0, 1, 0.0, holder)
    assert holds.count == HOLDS_MAX
    holds.end(7, 1)
    assert holds.lock(0, 1, 0.0, holder) == 7
    assert holds.take_due(5.0, 3) == [1, 7, 2]
