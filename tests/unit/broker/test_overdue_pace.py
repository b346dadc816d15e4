"""Deliveries of a backlog give way to producers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from bmq.broker.overdue_pace import CAUGHT_UP_AFTER_S, PAUSE_MAX_S, OverduePace, share_of_time
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit

TOOK_S = 0.01


def test_a_backlog_that_stays_gets_more_of_the_time() -> None:
    assert [share_of_time(behind_s) for behind_s in (0, 19, 20, 39, 40, 10_000_000)] == [0.25, 0.25, 0.5, 0.5, 1, 1]


async def deliver(pace: OverduePace, counts: SimpleNamespace, *, others: int, is_overdue: bool = True) -> None:
    async with pace.turn(is_overdue=is_overdue):
        await asyncio.sleep(TOOK_S)
        counts.appended_batches += 2 + others


async def timed(pace: OverduePace, counts: SimpleNamespace, times: int, *, others: int) -> float:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(times):
        await deliver(pace, counts, others=others)
    return loop.time() - began_s


def test_beside_producers_a_backlog_has_a_quarter_of_the_time() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace = OverduePace(counts)
        assert await timed(pace, counts, 100, others=0) == pytest.approx(100 * TOOK_S)
        assert await timed(pace, counts, 100, others=1) == pytest.approx(100 * TOOK_S * 4)

    virtual(main)


def test_after_twenty_seconds_it_has_half_and_after_a_pause_a_quarter_again() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace = OverduePace(counts)
        assert await timed(pace, counts, 500, others=1) == pytest.approx(20)
        assert await timed(pace, counts, 100, others=1) == pytest.approx(100 * TOOK_S * 2)
        await asyncio.sleep(CAUGHT_UP_AFTER_S)
        assert await timed(pace, counts, 100, others=1) == pytest.approx(100 * TOOK_S * 4)

    virtual(main)


def test_overdue_deliveries_follow_each_other_and_others_do_not_wait() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace, loop = OverduePace(counts), asyncio.get_running_loop()
        began_s = loop.time()
        backlog = [asyncio.ensure_future(deliver(pace, counts, others=0)) for _ in range(5)]
        await asyncio.sleep(0)
        await deliver(pace, counts, others=-2, is_overdue=False)
        assert loop.time() - began_s == pytest.approx(TOOK_S)
        await asyncio.gather(*backlog)
        assert loop.time() - began_s == pytest.approx(5 * TOOK_S)

    virtual(main)


def test_a_slow_delivery_is_followed_by_a_bounded_pause_and_a_failed_one_by_none() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace, loop = OverduePace(counts), asyncio.get_running_loop()
        began_s = loop.time()
        async with pace.turn(is_overdue=True):
            await asyncio.sleep(3)
            counts.appended_batches += 9
        assert loop.time() - began_s == pytest.approx(3 + PAUSE_MAX_S)
        with pytest.raises(RuntimeError):
            async with pace.turn(is_overdue=True):
                counts.appended_batches += 9
                raise RuntimeError
        assert loop.time() - began_s == pytest.approx(3 + PAUSE_MAX_S)

    virtual(main)
