"""Whatever lanes come and go, each record is seen once: by its lane's group, by the base group, or by the base in a copy."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bmq.log.lanes.intervals import (
    NO_END,
    Interval,
    closed,
    concerning,
    is_of_base,
    is_of_lane,
    open_interval,
    opened,
)

pytestmark = pytest.mark.unit

LANES = ("red", "blue")


def test_interval_that_is_open_takes_all_that_follows() -> None:
    taken = opened([], "blue", 10)
    assert taken == Interval("blue", 10, NO_END, NO_END) and taken.is_open and not taken.left_over
    assert is_of_base([taken], "blue", 9) and not is_of_lane([taken], "blue", 9)
    assert is_of_lane([taken], "blue", 10) and not is_of_base([taken], "blue", 10)
    assert is_of_base([taken], "red", 10) and is_of_base([taken], "", 10)


@pytest.mark.parametrize(("committed", "kept"), [(None, 10), (3, 10), (10, 10), (14, 14), (20, 20), (99, 20)])
def test_interval_ends_with_what_was_committed_within_its_bounds(committed: int | None, kept: int) -> None:
    ended = closed(Interval("blue", 10), 20, committed)
    assert ended == Interval("blue", 10, 20, kept) and ended.left_over == range(kept, 20)


def test_lane_that_comes_back_at_once_goes_on_unless_something_was_left_over() -> None:
    done, left = Interval("blue", 10, 20, 20), Interval("blue", 10, 20, 15)
    assert opened([done], "blue", 20) == Interval("blue", 10)
    assert opened([left], "blue", 20) == Interval("blue", 20)
    assert opened([done], "blue", 21) == Interval("blue", 21)
    with pytest.raises(ValueError, match="is taken"):
        opened([Interval("blue", 10)], "blue", 20)


def test_intervals_that_concern_offsets() -> None:
    first, second = Interval("blue", 10, 20, 20), Interval("red", 30)
    assert concerning([first, second], 20, 29) == []
    assert concerning([first, second], 19, 29) == [first]
    assert concerning([first, second], 0, 30) == [first, second]


@dataclass
class Group:
    """Of a lane: `position` is where its consumer reads on, `committed` survives it."""

    committed: int | None = None
    position: int | None = None
    given: list[int] = field(default_factory=list)


class Flips(RuleBasedStateMachine):
    """Method: the log is a list of lanes; the base group and each lane's group read it at their own pace, each answer decided by
    the intervals of that moment, up to the high watermark. What a lane's group was given counts once it is committed."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []
        self.intervals: dict[tuple[str, int], Interval] = {}
        self.base_position = 0
        self.by_base: list[int] = []
        self.by_copy: list[int] = []
        self.by_lane: list[int] = []
        self.groups = {lane: Group() for lane in LANES}

    def put(self, one: Interval) -> None:
        self.intervals[one.lane, one.start] = one

    @property
    def present(self) -> list[Interval]:
        return list(self.intervals.values())

    @rule(lanes=st.lists(st.sampled_from(["", *LANES]), min_size=1, max_size=4))
    def produce(self, lanes: list[str]) -> None:
        self.log += lanes

    @rule(count=st.integers(1, 5))
    def base_reads(self, count: int) -> None:
        end = min(self.base_position + count, len(self.log))
        for offset in range(self.base_position, end):
            if is_of_base(self.present, self.log[offset], offset):
                self.by_base.append(offset)
        self.base_position = end

    @rule(lane=st.sampled_from(LANES))
    def join(self, lane: str) -> None:
        group = self.groups[lane]
        if group.position is None:
            group.position, group.given = group.committed or 0, []

    @rule(lane=st.sampled_from(LANES), count=st.integers(1, 5))
    def lane_reads(self, lane: str, count: int) -> None:
        group = self.groups[lane]
        if group.position is None:
            return
        if open_interval(self.present, lane) is None:
            self.put(opened(self.present, lane, len(self.log)))
        end = min(group.position + count, len(self.log))
        group.given += [
            offset
            for offset in range(group.position, end)
            if self.log[offset] == lane and is_of_lane(self.present, lane, offset)
        ]
        group.position = end

    @rule(lane=st.sampled_from(LANES))
    def commit(self, lane: str) -> None:
        group = self.groups[lane]
        if group.position is not None:
            self.by_lane += group.given
            group.given, group.committed = [], group.position

    @rule(lane=st.sampled_from(LANES))
    def leave(self, lane: str) -> None:
        self.groups[lane].position = None

    @rule(lane=st.sampled_from(LANES))
    def close(self, lane: str) -> None:
        taken, group = open_interval(self.present, lane), self.groups[lane]
        if taken is None or group.position is not None:
            return
        ended = closed(taken, len(self.log), group.committed)
        self.put(ended)
        self.by_copy += [offset for offset in ended.left_over if self.log[offset] == lane]

    @invariant()
    def nothing_is_seen_twice(self) -> None:
        seen = self.by_base + self.by_copy + self.by_lane
        assert len(seen) == len(set(seen))

    @precondition(lambda self: self.log)
    @invariant()
    def nothing_is_skipped_once_all_have_read(self) -> None:
        waiting = {
            offset
            for offset, lane in enumerate(self.log)
            if is_of_lane(self.present, lane, offset) and offset >= (self.groups[lane].committed or 0)
        }
        behind = {
            offset
            for offset in range(self.base_position, len(self.log))
            if is_of_base(self.present, self.log[offset], offset)
        }
        seen = {*self.by_base, *self.by_copy, *self.by_lane}
        assert seen | waiting | behind == set(range(len(self.log)))
        assert not seen & (waiting | behind)


TestFlips = Flips.TestCase
