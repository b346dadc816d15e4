"""The checker finds what it is there for: each rule broken once by hand."""

from __future__ import annotations

import pytest

from tests.simulation.history import History, Violation

pytestmark = pytest.mark.simulation


def written(values: list[bytes], *, is_numbered: bool = True) -> History:
    history = History()
    for second, value in enumerate(values):
        history.send([value], float(second), is_numbered=is_numbered)
    return history


def log_of(*values: bytes) -> dict[int, list[tuple[int, bytes]]]:
    return {0: list(enumerate(values))}


def test_what_was_sent_once_is_there_once() -> None:
    history = written([b"a-1:", b"a-2:"], is_numbered=False)
    history.check_final(log_of(b"a-1:", b"a-2:"))
    with pytest.raises(Violation, match="there 2 times, it was sent 1 times"):
        history.check_final(log_of(b"a-1:", b"a-1:", b"a-2:"))


def test_what_was_sent_again_may_be_there_again() -> None:
    history = written([b"a-1:", b"a-1:"], is_numbered=False)
    history.check_final(log_of(b"a-1:", b"a-1:"))
    with pytest.raises(Violation, match="3 times"):
        history.check_final(log_of(b"a-1:", b"a-1:", b"a-1:"))


def test_what_is_numbered_is_there_once_however_often_it_was_sent() -> None:
    history = written([b"p0-1:", b"p0-1:"])
    with pytest.raises(Violation, match="2 times"):
        history.check_final(log_of(b"p0-1:", b"p0-1:"))


def test_the_order_of_sending_is_kept() -> None:
    history = written([b"p0-1:", b"p0-2:"])
    history.check_final(log_of(b"p0-2:", b"p0-1:"))
    history.in_order.add("p0")
    with pytest.raises(Violation, match="record 1 of p0 follows record 2"):
        history.check_final(log_of(b"p0-2:", b"p0-1:"))


def test_answers_come_in_the_order_of_sending() -> None:
    history = History()
    history.acknowledge_in_order("p0", 0, 5)
    history.acknowledge_in_order("p0", 1, 2)
    with pytest.raises(Violation, match="was told 4 of 0 after 5"):
        history.acknowledge_in_order("p0", 0, 4)


def test_an_end_is_told_when_what_lies_below_was_sent() -> None:
    history = written([b"p0-1:", b"p0-2:"])  # at 0 s and at 1 s
    history.hear_high_watermark(0, 1, 0.5)
    history.hear_high_watermark(0, 2, 1.5)
    history.check_final(log_of(b"p0-1:", b"p0-2:"))
    history = written([b"p0-1:", b"p0-2:"])
    history.hear_high_watermark(0, 2, 0.5)
    with pytest.raises(Violation, match="said to end at 2"):
        history.check_final(log_of(b"p0-1:", b"p0-2:"))


def test_an_end_that_was_told_is_reached() -> None:
    history = written([b"p0-1:"])
    history.hear_high_watermark(0, 2, 0.5)
    with pytest.raises(Violation, match="ends at 1, 2 was told"):
        history.check_final(log_of(b"p0-1:"))


def test_committed_offsets_are_those_that_were_committed() -> None:
    history = History()
    history.fetched_commit(0, 0, known_before=0)
    history.try_commit(0, 7)
    history.fetched_commit(0, 7, known_before=0)
    with pytest.raises(Violation, match="is 8, which nobody committed"):
        history.fetched_commit(0, 8, known_before=7)


def test_committed_offsets_never_go_back_not_even_to_one_that_was_only_seen() -> None:
    history = History()
    for offset in (42, 45):
        history.try_commit(0, offset)
    history.fetched_commit(0, 45, known_before=0)
    assert history.committed[0] == 45
    with pytest.raises(Violation, match="went back from 45 to 42"):
        history.fetched_commit(0, 42, known_before=history.committed[0])


def test_acks_of_one_are_not_judged_by_the_replicas() -> None:
    history = History()
    judged: list[list[bytes]] = []
    history.on_acknowledge = judged.append
    history.acknowledge(0, 0, [b"a"], is_acks_all=False)
    history.acknowledge(0, 1, [b"b"])
    assert judged == [[b"b"]]
