"""Deliveries of a backlog give way to producers."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from bmq.broker.overdue_pace import (
    CAUGHT_UP_AFTER_S,
    DELIVERY_BATCHES,
    HOLD_MAX_S,
    PRODUCERS_SEEN_S,
    OverduePace,
    share_of_time,
)
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit

TOOK_S = 0.01


def test_a_backlog_that_stays_gets_more_of_the_time() -> None:
    assert [share_of_time(behind_s) for behind_s in (0, 19, 20, 39, 40, 10_000_000)] == [0.25, 0.25, 0.5, 0.5, 1, 1]


async def deliver(pace: OverduePace, counts: SimpleNamespace, *, others: int, is_overdue: bool = True) -> None:
    async with pace.turn(is_overdue=is_overdue):
        await asyncio.sleep(TOOK_S)
        counts.appended_batches += DELIVERY_BATCHES + others
        pace.delivered()


async def timed(pace: OverduePace, counts: SimpleNamespace, times: int, *, others: int) -> float:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for _ in range(times):
        await deliver(pace, counts, others=others)
    return loop.time() - began_s


async def many(pace: OverduePace, counts: SimpleNamespace, *, others: int) -> float:
    """Ten deliveries that ask at the same time."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await asyncio.gather(*(deliver(pace, counts, others=others) for _ in range(10)))
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


def test_beside_producers_overdue_deliveries_follow_each_other_and_others_do_not_wait() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace, loop = OverduePace(counts), asyncio.get_running_loop()
        await deliver(pace, counts, others=1)
        began_s = loop.time()
        backlog = asyncio.ensure_future(many(pace, counts, others=1))
        await asyncio.sleep(0)
        await deliver(pace, counts, others=0, is_overdue=False)
        assert loop.time() - began_s == pytest.approx(TOOK_S)
        assert await backlog == pytest.approx(10 * TOOK_S * 4)

    virtual(main)


def test_without_producers_they_do_not_follow_each_other() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace = OverduePace(counts)
        assert await many(pace, counts, others=0) == pytest.approx(TOOK_S)
        await deliver(pace, counts, others=1)
        await asyncio.sleep(PRODUCERS_SEEN_S)
        assert await many(pace, counts, others=0) == pytest.approx(TOOK_S)

    virtual(main)


def test_a_backlog_that_stays_has_no_limit_in_the_end() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace, loop = OverduePace(counts), asyncio.get_running_loop()
        began_s = loop.time()
        while loop.time() < began_s + 41:
            took_s = await many(pace, counts, others=1)
        assert took_s == pytest.approx(TOOK_S)

    virtual(main)


def test_a_delivery_that_hangs_keeps_the_others_for_a_second_at_most() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace, loop = OverduePace(counts), asyncio.get_running_loop()
        await deliver(pace, counts, others=1)

        async def hang() -> None:
            async with pace.turn(is_overdue=True):
                await asyncio.sleep(30)

        hanging = asyncio.ensure_future(hang())
        await asyncio.sleep(0)
        began_s = loop.time()
        await deliver(pace, counts, others=1)
        assert loop.time() - began_s == pytest.approx(HOLD_MAX_S + TOOK_S * 4)
        await hanging
        assert pace._running == 0

    virtual(main)


def test_a_cancelled_one_and_a_failed_one_leave_no_trace() -> None:
    async def main() -> None:
        counts = SimpleNamespace(appended_batches=0)
        pace = OverduePace(counts)
        await deliver(pace, counts, others=1)
        running = asyncio.ensure_future(deliver(pace, counts, others=1))
        waiting = [asyncio.ensure_future(deliver(pace, counts, others=1)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        running.cancel()
        await asyncio.gather(*waiting, running, return_exceptions=True)
        with pytest.raises(RuntimeError):
            async with pace.turn(is_overdue=True):
                raise RuntimeError
        assert pace._running == 0
        assert await timed(pace, counts, 1, others=1) == pytest.approx(TOOK_S * 4)

    virtual(main)
