"""What the history of lanes calls a violation."""

from __future__ import annotations

import pytest

from tests.simulation.history import Violation
from tests.simulation.lane_history import LaneHistory

pytestmark = pytest.mark.simulation


def world() -> LaneHistory:
    """Records at 0 to 3 of partition 0: `a` without a lane, `b` and `c` of blue, `d` of red."""
    history = LaneHistory()
    history.send("", [b"a"])
    history.send("blue", [b"b", b"c"])
    history.send("red", [b"d"])
    history.acknowledge(0, 0, [b"a", b"b", b"c", b"d"])
    return history


LOG = {0: {0: b"a", 1: b"b", 2: b"c", 3: b"d"}}


def test_a_right_history() -> None:
    history = world()
    history.base_read(0, range(4), {0: b"a", 3: b"d"})
    assert history.missing() == [(0, 1), (0, 2)]
    history.lane_read("blue", 0, {1: b"b", 2: b"c"})
    history.committing([(0, 1)])
    history.committed("m", [(0, 1)])
    history.copy((0, 2), b"c")
    assert history.missing() == []
    history.check_final(LOG)
    assert history.counts() == {"base": 2, "lanes": 1, "copies": 1}


def test_a_record_is_seen_by_one_of_both() -> None:
    history = world()
    history.base_read(0, range(2), {0: b"a", 1: b"b"})
    with pytest.raises(Violation, match="by the base group, and by the lane blue"):
        history.lane_read("blue", 0, {1: b"b"})
    with pytest.raises(Violation, match="by the base group, and has a copy"):
        history.copy((0, 1), b"b")
    history.lane_read("blue", 0, {2: b"c"})
    with pytest.raises(Violation, match="by the base group, and by the lane blue"):
        history.base_read(0, range(2, 3), {2: b"c"})


def test_base_groups_readers_see_the_same() -> None:
    history = world()
    history.base_read(0, range(2), {0: b"a"})
    with pytest.raises(Violation, match="not by another one"):
        history.base_read(0, range(1, 2), {1: b"b"})


def test_what_was_done_has_no_copy_and_is_done_once() -> None:
    history = world()
    history.lane_read("blue", 0, {1: b"b"})
    history.committed("m", [(0, 1)])
    with pytest.raises(Violation, match="done by m and by n"):
        history.committed("n", [(0, 1)])
    with pytest.raises(Violation, match="done by m, and has a copy"):
        history.copy((0, 1), b"b")
    history.copy((0, 2), b"c")
    with pytest.raises(Violation, match="two copies"):
        history.copy((0, 2), b"c")


def test_a_lane_sees_its_own_records() -> None:
    with pytest.raises(Violation, match="of the lane 'red'"):
        world().lane_read("blue", 0, {3: b"d"})


def test_a_record_that_nobody_saw_is_missing() -> None:
    history = world()
    history.base_read(0, range(4), {0: b"a", 3: b"d"})
    history.lane_read("blue", 0, {1: b"b", 2: b"c"})
    history.committed("m", [(0, 1)])
    history.committing([(0, 2)])
    history.check_final(LOG)
    history.refused([(0, 2)], doubted={(0, 2)})
    assert history.missing() == []
    history.refused([(0, 2)], doubted=set())
    assert history.missing() == [(0, 2)]
    with pytest.raises(Violation, match="seen by nobody"):
        history.check_final(LOG)
    history.copy((0, 2), b"c")
    with pytest.raises(Violation, match="not there any more"):
        history.check_final({0: {0: b"a"}})


def test_a_record_without_a_lane_is_the_base_groups() -> None:
    history = world()
    history.base_read(0, range(4), {3: b"d"})
    with pytest.raises(Violation, match="no lane, and the base group did not see it"):
        history.check_final(LOG)
