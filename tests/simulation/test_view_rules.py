"""What the history of views calls a violation."""

from __future__ import annotations

import pytest

from tests.simulation.history import Violation
from tests.simulation.view_history import ViewHistory

pytestmark = pytest.mark.simulation

LOG = {0: {0: b"a", 1: b"b", 2: b"c"}}


def world() -> ViewHistory:
    """Records at 0 to 2 of partition 0, of which `b` and `c` are of blue; the end is 4, as a marker follows."""
    history = ViewHistory({"blue": lambda lane: lane == "blue", "rest": lambda lane: lane != "blue"})
    history.send("", [b"a"])
    history.send("blue", [b"b", b"c"])
    history.acknowledge(0, 0, [b"a", b"b", b"c"])
    return history


def test_a_right_history() -> None:
    history = world()
    history.read("blue", 0, range(2), {1: b"b"})
    assert history.behind({0: 4, 1: 0}) == ["blue", "rest"]
    history.read("blue", 0, range(1, 4), {1: b"b", 2: b"c"})
    history.read("rest", 0, range(4), {0: b"a"})
    assert history.behind({0: 4, 1: 0}) == []
    history.check_final(LOG)
    assert history.counts() == {"shown": 3, "left_out": 5}


def test_what_is_shown_passes_and_was_sent() -> None:
    with pytest.raises(Violation, match="of the lane ''"):
        world().read("blue", 0, range(1), {0: b"a"})
    with pytest.raises(Violation, match="never sent"):
        world().read("blue", 0, range(1), {0: b"x"})
    with pytest.raises(Violation, match="moved from 0 to 1"):
        world().read("blue", 0, range(1), {1: b"b"})


@pytest.mark.parametrize("again", [{}, {1: b"c"}])
def test_every_reader_sees_the_same(again: dict[int, bytes]) -> None:
    history = world()
    history.read("blue", 0, range(2), {1: b"b"})
    with pytest.raises(Violation, match="and then"):
        history.read("blue", 0, range(2), again)


def test_a_record_that_passes_is_not_left_out() -> None:
    history = world()
    history.read("blue", 0, range(4), {2: b"c"})
    with pytest.raises(Violation, match=r"blue has None at \(0, 1\)"):
        history.check_final(LOG)


def test_nothing_is_shown_that_is_not_there() -> None:
    history = world()
    history.read("blue", 0, range(4), {1: b"b", 2: b"c", 3: b"c"})
    history.read("rest", 0, range(4), {0: b"a"})
    with pytest.raises(Violation, match=r"shows \[\(0, 3\)\]"):
        history.check_final(LOG)


def test_what_was_acknowledged_stays() -> None:
    with pytest.raises(Violation, match="not there any more"):
        world().check_final({0: {0: b"a", 1: b"b"}})
    with pytest.raises(Violation, match="was acknowledged for"):
        world().acknowledge(0, 1, [b"x"])
