"""What the history of delayed records calls a violation."""

from __future__ import annotations

import pytest

from tests.simulation.delay_history import Asked, DelayHistory, Seen
from tests.simulation.history import Violation

pytestmark = pytest.mark.simulation

NOW_MS = 1_000


class World:
    """Record `a` asks for 500, `b` for 700, `c` for 200 ms after its append, `d` for nothing; told as 1 to 4 of partition 0."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.history = DelayHistory(lambda: self.now_ms)
        self.records = [
            Asked(b"a", 100, at_ms=500),
            Asked(b"b", 100, at_ms=700),
            Asked(b"c", 100, after_ms=200),
            Asked(b"d", 100),
        ]
        self.history.send(self.records)
        self.history.acknowledge(0, 1, self.records)

    def deliver(self, offset: int, value: bytes, name: int, due_ms: int, timestamp_ms: int = 900) -> Seen:
        one = Seen(offset, value, timestamp_ms, 1, name, due_ms, 100)
        self.history.read(0, one)
        return one

    def plain(self, offset: int, value: bytes) -> Seen:
        one = Seen(offset, value, 100, 1)
        self.history.read(0, one)
        return one


def test_a_right_history() -> None:
    world = World()
    log = [
        world.plain(4, b"d"),
        world.deliver(10, b"c", 3, 310),
        world.deliver(12, b"a", 1, 500),
    ]
    assert world.history.missing() == [b"b"]
    log.append(world.deliver(13, b"b", 2, 700))
    assert world.history.missing() == []
    world.history.check_final(0, 0, log)
    assert world.history.counts() == {"delivered": 3, "plain": 1, "cancelled": 0, "refused": 0}


def test_a_record_is_there_once_and_stays_as_it_is() -> None:
    world = World()
    one = world.deliver(10, b"a", 1, 500)
    with pytest.raises(Violation, match="was read at"):
        world.deliver(11, b"a", 1, 500)
    with pytest.raises(Violation, match="was read as"):
        world.history.read(0, one._replace(value=b"b"))
    with pytest.raises(Violation, match="nobody sent"):
        world.deliver(12, b"x", 9, 500)
    with pytest.raises(Violation, match="which was told this offset"):
        world.deliver(13, b"b", 1, 700)
    gone = World()
    gone.deliver(10, b"a", 1, 500)
    log = [gone.plain(4, b"d")]
    with pytest.raises(Violation, match=r"offsets \[10\] of 0 were read, and are not there any more"):
        gone.history.check_final(0, 0, log)
    with pytest.raises(Violation, match="0 begins at 11, and nothing above 0 was deleted"):
        gone.history.check_final(0, 11, [])
    gone.history.delete(0, 11)
    gone.history.check_final(0, 11, [])


def test_nothing_is_early() -> None:
    world = World()
    with pytest.raises(Violation, match="asked for 500"):
        world.deliver(10, b"a", 1, 499)
    with pytest.raises(Violation, match="asked for 300"):
        world.deliver(11, b"c", 3, 299)
    with pytest.raises(Violation, match="was read at 1000 at the latest"):
        world.deliver(12, b"b", 2, 700, timestamp_ms=1_001)
    with pytest.raises(Violation, match="asked for no delay"):
        world.deliver(13, b"d", 4, 500)
    early = World()
    early.now_ms = 600
    with pytest.raises(Violation, match="asked for 700, and was read at 600"):
        early.plain(2, b"b")
    early.plain(1, b"a")
    early.history.ahead_ms = 100
    late = World()
    with pytest.raises(Violation, match="is early: due times up to -1 had been reached"):
        late.history.check_final(0, 0, [late.deliver(10, b"a", 1, 500, timestamp_ms=499)])


def test_an_owner_whose_clock_is_behind_may_deliver_what_was_reached_once() -> None:
    world = World()
    log = [world.deliver(10, b"b", 2, 700, timestamp_ms=700), world.deliver(11, b"c", 3, 700, timestamp_ms=50)]
    world.history.check_final(0, 0, log)


def test_deliveries_are_in_order() -> None:
    world = World()
    log = [world.deliver(10, b"b", 2, 700), world.deliver(11, b"a", 1, 500)]
    with pytest.raises(Violation, match=r"was delivered behind \(700, 2\)"):
        world.history.check_final(0, 0, log)
    same = World()
    log = [same.deliver(10, b"b", 2, 700), same.deliver(11, b"a", 1, 700)]
    with pytest.raises(Violation, match=r"was delivered behind \(700, 2\)"):
        same.history.check_final(0, 0, log)


def test_what_was_cancelled_is_not_there() -> None:
    world = World()
    world.history.cancelling((0, 1))
    assert world.history.missing() == [b"b", b"c", b"d"], "nobody knows yet"
    world.history.cancel((0, 1))
    assert world.history.missing() == [b"b", b"c", b"d"]
    with pytest.raises(Violation, match="was cancelled"):
        world.deliver(10, b"a", 1, 500)
    late = World()
    late.deliver(10, b"a", 1, 500)
    late.history.cancelling((0, 1))
    with pytest.raises(Violation, match="was cancelled, and b'a' had been read"):
        late.history.cancel((0, 1))


def test_what_was_not_cancelled_is_missed() -> None:
    world = World()
    world.history.cancelling((0, 1))
    world.history.refuse((0, 1), is_certain=False)
    assert b"a" not in world.history.missing()
    world.history.refuse((0, 1), is_certain=True)
    assert b"a" in world.history.missing()


def test_an_offset_is_told_for_one_record() -> None:
    world = World()
    world.history.acknowledge(0, 1, world.records)
    with pytest.raises(Violation, match="offset 2 of 0 was told for b'b' and for b'a'"):
        world.history.acknowledge(0, 2, world.records[:1])


def test_epochs_do_not_go_back() -> None:
    world = World()
    log = [Seen(4, b"d", 100, 2), Seen(10, b"a", 900, 1, 1, 500, 100)]
    with pytest.raises(Violation, match="leader epochs of 0 go back"):
        world.history.check_final(0, 0, log)
