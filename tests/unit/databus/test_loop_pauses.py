"""Pauses of a lane's thread: as long as its work, and only while applications hand records over."""

from __future__ import annotations

import pytest

from bmq.databus.spool.loop_pauses import PAUSE_S_MAX, LoopPauses

pytestmark = pytest.mark.unit


class Work:
    """A thread whose time passes by its work alone."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept_s: list[float] = []
        self.handed_over = 0
        self.pauses = LoopPauses(lambda: self.handed_over, now_s=lambda: self.now_s, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds

    def do(self, seconds: float, *, handed_over: int = 0) -> None:
        self.now_s += seconds
        self.handed_over += handed_over
        self.pauses.pause()


def test_a_pause_is_as_long_as_the_work_before_it() -> None:
    work = Work()
    work.do(0.0003, handed_over=5)
    work.do(0.0005, handed_over=1)
    assert work.slept_s == pytest.approx([0.0003, 0.0005])


def test_a_pause_is_bounded() -> None:
    work = Work()
    work.do(0.5, handed_over=1)
    assert work.slept_s == [PAUSE_S_MAX]


def test_nobody_waits_while_no_record_is_handed_over() -> None:
    work = Work()
    for _ in range(10):
        work.do(0.0003)
    assert work.slept_s == []
    work.do(0.0003, handed_over=1)
    assert work.slept_s == pytest.approx([0.0003]), "the work since the last look alone counts"
