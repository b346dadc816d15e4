"""What the history of share groups calls a violation."""

from __future__ import annotations

import pytest

from bmq.protocol.dead_letters import DeadReason
from bmq.protocol.share_state_messages import AckType
from tests.simulation.dead_letters import Letter
from tests.simulation.history import Violation
from tests.simulation.share_history import Hold, ShareHistory

pytestmark = pytest.mark.simulation

PLACE = ("events", 0)
SPOT = (PLACE, 7)
SPENT, REJECTED = DeadReason.DELIVERY_COUNT.text, DeadReason.REJECTED.text


class World:
    """A history of one record, whose locks last for 3 s and whose limit is 2."""

    def __init__(self, backoff: tuple[int, ...] = ()) -> None:
        self.now_s = 0.0
        self.history = ShareHistory(lambda: self.now_s, 2, backoff)

    def deliver(self, member_id: str, count: int) -> Hold:
        hold = Hold(SPOT, member_id, count, self.now_s, self.now_s + 3.0, lambda since_s: False)
        self.history.deliver(hold)
        return hold

    def settle(self, hold: Hold, kind: AckType, answered_s: float | None = None) -> None:
        sent_s = self.now_s
        self.history.settling(hold, kind)
        self.now_s = sent_s if answered_s is None else answered_s
        self.history.settled(hold, kind, self.history.newest(SPOT), sent_s)

    def letters(self, *letters: Letter) -> list[tuple[tuple[str, int], int]]:
        """Those without a dead letter, after a check of these."""
        self.history.check_letters(letters, {PLACE: {7: b"value"}})
        return self.history.without_letters({PLACE: [7]}, letters)


def letter(count: int, why: str = SPENT, value: bytes = b"value") -> Letter:
    return Letter(PLACE, 7, count, why, value)


def test_a_count_is_given_once_and_to_one_member_at_a_time() -> None:
    world = World()
    first = world.deliver("a", 1)
    with pytest.raises(Violation, match="delivered to a and to b with count 1"):
        world.deliver("b", 1)
    world.deliver("b", 2)
    world.now_s = 1.0
    with pytest.raises(Violation, match=r"is locked by a until 3\.000 s, and was given to b"):
        world.history.lasted([first], 0.5)


def test_nobody_is_given_more_than_the_limit_or_what_was_accepted() -> None:
    world = World()
    with pytest.raises(Violation, match="with count 3, the limit was 2"):
        world.deliver("a", 3)
    world.settle(world.deliver("a", 1), AckType.ACCEPT)
    with pytest.raises(Violation, match="was settled at delivery 1, and given to b with count 2"):
        world.deliver("b", 2)


def test_a_member_settles_nothing_that_another_one_has_locked_since() -> None:
    world = World()
    late = world.deliver("a", 1)
    world.now_s = 4.0
    world.deliver("b", 2)
    with pytest.raises(Violation, match="was settled by a at delivery 1, and b has it with count 2"):
        world.settle(late, AckType.ACCEPT)


def test_a_record_whose_acknowledgement_was_refused_stays_locked() -> None:
    world = World()
    hold = world.deliver("a", 1)
    world.history.settling(hold, AckType.ACCEPT)
    world.history.refused(hold, AckType.ACCEPT)
    world.now_s = 2.9
    with pytest.raises(Violation, match=r"is locked by a until .*, an acknowledgement of it was refused"):
        world.deliver("b", 2)
    released = World()
    hold = released.deliver("a", 1)
    released.history.settling(hold, AckType.RELEASE)
    released.history.refused(hold, AckType.RELEASE)
    released.deliver("b", 2)
    assert released.history.refusal_count == 1


def test_a_refused_acknowledgement_keeps_no_lock_beyond_its_member() -> None:
    world = World()
    hold = world.deliver("a", 1)
    world.history.settling(hold, AckType.ACCEPT)
    world.history.refused(hold, AckType.ACCEPT)
    world.history.session_ended("b")
    with pytest.raises(Violation, match="an acknowledgement of it was refused"):
        world.deliver("b", 2)
    world = World()
    hold = world.deliver("a", 1)
    world.history.settling(hold, AckType.ACCEPT)
    world.history.refused(hold, AckType.ACCEPT)
    world.history.session_ended("a")
    world.deliver("b", 2)


def test_what_a_member_says_of_an_older_delivery_ends_the_lock_of_its_newest() -> None:
    """Its lock ran out, it was given the record again, and released the older delivery."""
    world = World()
    world.history.limited(3)
    late = world.deliver("a", 1)
    world.now_s = 4.0
    newest = world.deliver("a", 2)
    world.settle(late, AckType.RELEASE)
    world.history.settling(newest, AckType.ACCEPT)
    world.history.refused(newest, AckType.ACCEPT)
    world.deliver("b", 3)
    renewed = World()
    renewed.history.limited(3)
    late = renewed.deliver("a", 1)
    renewed.now_s = 4.0
    newest = renewed.deliver("a", 2)
    renewed.settle(late, AckType.RENEW)
    renewed.history.settling(newest, AckType.ACCEPT)
    renewed.history.refused(newest, AckType.ACCEPT)
    with pytest.raises(Violation, match=r"is locked by a until .*, an acknowledgement of it was refused"):
        renewed.deliver("b", 3)


def test_a_released_record_waits_for_its_back_off() -> None:
    world = World((1_000, 1_500))
    world.now_s = 2.0
    world.settle(world.deliver("a", 1), AckType.RELEASE)
    world.now_s = 2.9
    with pytest.raises(Violation, match=r"has to wait until 3\.000 s, and was given with 2 at 2\.900 s"):
        world.deliver("b", 2)


def test_a_record_that_came_back_before_the_release_was_answered_has_waited_too_little() -> None:
    world = World((1_000,))
    hold = world.deliver("a", 1)
    world.history.settling(hold, AckType.RELEASE)
    world.now_s = 0.5
    world.deliver("b", 2)
    with pytest.raises(Violation, match="has to wait until"):
        world.history.settled(hold, AckType.RELEASE, 1, 0.0)


def test_a_release_that_was_answered_after_the_lock_says_nothing() -> None:
    world = World((1_000,))
    world.settle(world.deliver("a", 1), AckType.RELEASE, answered_s=3.1)
    world.deliver("b", 2)
    assert world.history.wait_count == 0


def test_what_nobody_has_accepted_has_a_dead_letter() -> None:
    world = World()
    assert world.letters() == [SPOT]
    world.deliver("a", 1)
    assert world.letters(letter(2)) == []
    world.settle(world.deliver("a", 2), AckType.ACCEPT)
    assert world.history.without_letters({PLACE: [7]}, []) == []


def test_what_was_rejected_has_a_dead_letter_although_somebody_tried_to_accept_it() -> None:
    world = World()
    world.history.settling(world.deliver("a", 1), AckType.ACCEPT)
    world.settle(world.deliver("b", 2), AckType.REJECT)
    assert world.letters() == [SPOT]
    assert world.letters(letter(2, REJECTED)) == []


def test_dead_letters_tell_the_truth() -> None:
    world = World()
    world.deliver("a", 1)
    with pytest.raises(Violation, match="two dead letters"):
        world.letters(letter(2), letter(2), letter(2, value=b""))
    with pytest.raises(Violation, match="given with count 1, and its dead letter says 0"):
        world.letters(letter(0))
    with pytest.raises(Violation, match="count 3, the limit was 2"):
        world.letters(letter(3))
    with pytest.raises(Violation, match="given up at 1 deliveries, 2 were allowed"):
        world.letters(letter(1))
    with pytest.raises(Violation, match="was rejected by nobody"):
        world.letters(letter(2, REJECTED))
    with pytest.raises(Violation, match="is b'value', and its dead letter has b'other'"):
        world.letters(letter(2, value=b"other"))
    world.settle(world.deliver("b", 2), AckType.ACCEPT)
    with pytest.raises(Violation, match="was accepted by b, and has a dead letter"):
        world.letters(letter(2))
