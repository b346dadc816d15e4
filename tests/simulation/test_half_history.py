"""What the history of half messages calls a violation."""

from __future__ import annotations

import pytest

from bmq.log.half.half_headers import Outcome
from tests.simulation.half_history import HalfHistory, HalfSeen, Kind
from tests.simulation.history import Violation

pytestmark = pytest.mark.simulation

NAMES = {b"a:": (0, 1), b"b:": (0, 2), b"plain": (0, 3)}


def history(*, gives_up: bool = True) -> HalfHistory:
    """Half messages `a:` and `b:`, and a plain record, told as 1 to 3 of partition 0."""
    made = HalfHistory(gives_up=gives_up)
    made.send([(b"a:", Kind.HALF), (b"b:", Kind.HALF), (b"plain", Kind.PLAIN)])
    made.acknowledge(0, 1, list(NAMES))
    return made


def decide(made: HalfHistory, value: bytes, outcome: Outcome) -> None:
    made.deciding(NAMES[value], outcome)
    made.decide(NAMES[value], outcome)


def deliver(made: HalfHistory, value: bytes, offset: int) -> HalfSeen:
    one = HalfSeen(offset, value, 1, NAMES[value][1])
    made.read(0, one)
    return one


def test_a_right_history() -> None:
    made = history()
    plain = HalfSeen(3, b"plain", 1)
    made.read(0, plain)
    decide(made, b"a:", Outcome.COMMIT)
    assert set(made.missing()) == {b"a:", b"b:"}
    log = [plain, deliver(made, b"a:", 9)]
    made.asked_about(NAMES[b"b:"], b"b:")
    made.copied(NAMES[b"b:"], b"b:")
    made.copied(NAMES[b"b:"], b"b:")
    assert made.missing() == []
    made.check_final(0, 0, log)
    counts = {"delivered": 1, "rolled_back": 0, "given_up": 1, "checks": 1, "refused": 0}
    assert made.counts() == counts


def test_only_what_was_committed_is_delivered_once() -> None:
    with pytest.raises(Violation, match="nobody committed it"):
        deliver(history(), b"a:", 9)
    made = history()
    decide(made, b"a:", Outcome.COMMIT)
    deliver(made, b"a:", 9)
    with pytest.raises(Violation, match="was read at"):
        deliver(made, b"a:", 10)
    made = history()
    made.deciding(NAMES[b"a:"], Outcome.COMMIT)
    decide(made, b"a:", Outcome.ROLLBACK)
    with pytest.raises(Violation, match="had been rolled back"):
        deliver(made, b"a:", 9)
    with pytest.raises(Violation, match="kind half, with the name -1"):
        history().read(0, HalfSeen(1, b"a:", 1))
    with pytest.raises(Violation, match="is b'b:' and b'a:'"):
        history().read(0, HalfSeen(11, b"a:", 1, NAMES[b"b:"][1]))


def test_a_decision_stays() -> None:
    made = history()
    decide(made, b"a:", Outcome.COMMIT)
    with pytest.raises(Violation, match="decided twice: COMMIT and ROLLBACK"):
        decide(made, b"a:", Outcome.ROLLBACK)
    made = history()
    made.deciding(NAMES[b"a:"], Outcome.COMMIT)
    deliver(made, b"a:", 9)
    with pytest.raises(Violation, match="was rolled back, and b'a:' had been read"):
        decide(made, b"a:", Outcome.ROLLBACK)


def test_what_is_given_up_is_not_decided() -> None:
    made = history()
    decide(made, b"a:", Outcome.ROLLBACK)
    with pytest.raises(Violation, match="was given up, and decided: ROLLBACK"):
        made.copied(NAMES[b"a:"], b"a:")
    made.copied(NAMES[b"b:"], b"b:")
    with pytest.raises(Violation, match="had been given up"):
        decide(made, b"b:", Outcome.COMMIT)
    with pytest.raises(Violation, match="had been given up"):
        deliver(made, b"b:", 9)
    with pytest.raises(Violation, match="was given up"):
        history(gives_up=False).copied(NAMES[b"b:"], b"b:")


def test_nothing_of_a_refused_batch_is_there() -> None:
    made = history()
    made.send([(b"x", Kind.PLAIN)])
    made.withdraw([b"x"])
    with pytest.raises(Violation, match="which was refused"):
        made.read(0, HalfSeen(7, b"x", 1))
    with pytest.raises(Violation, match="which was never sent"):
        made.read(0, HalfSeen(8, b"y", 1))


def test_where_nothing_is_given_up_only_the_decided_have_a_fate() -> None:
    made = history(gives_up=False)
    made.read(0, HalfSeen(3, b"plain", 1))
    assert made.missing() == []
    made.to_be_decided.add(b"a:")
    assert made.missing() == [b"a:"] and made.is_undecided(b"a:")
    decide(made, b"a:", Outcome.ROLLBACK)
    assert made.missing() == [] and not made.is_undecided(b"a:")


def test_checks_ask_about_half_messages_by_their_names() -> None:
    made = history()
    with pytest.raises(Violation, match="no half message"):
        made.asked_about(NAMES[b"plain"], b"plain")
    with pytest.raises(Violation, match=r"\(0, 2\) is"):
        made.asked_about(NAMES[b"b:"], b"a:")


def test_what_was_read_stays() -> None:
    made = history()
    decide(made, b"a:", Outcome.COMMIT)
    one = deliver(made, b"a:", 9)
    with pytest.raises(Violation, match="begins at 10"):
        made.check_final(0, 10, [])
    with pytest.raises(Violation, match=r"offsets \[9\] of 0 were read"):
        made.check_final(0, 0, [])
    made.delete(0, 10)
    made.check_final(0, 10, [])
    made = history()
    decide(made, b"a:", Outcome.COMMIT)
    with pytest.raises(Violation, match="leader epochs of 0 go back"):
        made.check_final(0, 0, [one._replace(leader_epoch=2), HalfSeen(12, b"plain", 1)])
