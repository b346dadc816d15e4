"""The time of a loop stands still, and passes as a test says."""

from __future__ import annotations

import asyncio

import pytest

from tests.fakes.loop_time import LATE_S, LoopTime

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]


async def beat(times: list[float], pause_s: float) -> None:
    while True:
        await asyncio.sleep(pause_s)
        times.append(asyncio.get_running_loop().time())


async def test_nothing_is_due_before_the_time_has_passed(loop_time: LoopTime) -> None:
    waiting = asyncio.create_task(asyncio.sleep(1, "done"))
    await loop_time.pass_s(0.999)
    assert not waiting.done()
    await loop_time.pass_s(0.001)
    assert await waiting == "done"


async def test_each_timer_runs_at_its_own_time(loop_time: LoopTime) -> None:
    began_s = loop_time.now_s()
    times: list[float] = []
    beating = asyncio.create_task(beat(times, 10))
    await loop_time.pass_s(35)
    assert [time - began_s for time in times] == pytest.approx([10, 20, 30], abs=10 * LATE_S)
    assert loop_time.now_s() - began_s == pytest.approx(35)
    beating.cancel()


async def test_after_a_jump_all_timers_are_late(loop_time: LoopTime) -> None:
    began_s = loop_time.now_s()
    times: list[float] = []
    beating = [asyncio.create_task(beat(times, pause_s)) for pause_s in (1, 2)]
    await asyncio.sleep(0)
    loop_time.jump(5)
    await loop_time.pass_s(0)
    assert [time - began_s for time in times] == pytest.approx([5, 5])
    for task in beating:
        task.cancel()


async def test_a_result_comes_without_its_pauses_and_before_its_time_out(loop_time: LoopTime) -> None:
    async def tried() -> str:
        async with asyncio.timeout(5):
            for _ in range(3):
                await asyncio.sleep(1)
            return "done"

    assert await loop_time.result(tried(), pauses_s_max=1) == "done"


async def test_a_pause_that_rounding_makes_longer_is_one_all_the_same(loop_time: LoopTime) -> None:
    loop_time._now_s = 32767.450151588473  # a sum beyond a power of two has fewer digits
    assert (loop_time.now_s() + 1.0) - loop_time.now_s() > 1.0
    assert await loop_time.result(asyncio.sleep(1.0, "done"), pauses_s_max=1.0) == "done"


async def test_an_error_is_its_result_too(loop_time: LoopTime) -> None:
    async def failing() -> None:
        await asyncio.sleep(1)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await loop_time.result(failing(), pauses_s_max=1)


async def test_who_waits_for_a_result_may_leave(loop_time: LoopTime) -> None:
    ended = asyncio.Event()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(loop_time.result(endless(), pauses_s_max=1))
    await loop_time.pass_s(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()


async def test_afterwards_the_clock_is_the_loops_own() -> None:
    loop = asyncio.get_running_loop()
    with LoopTime.stopped() as stopped:
        stopped.jump(1_000)
        assert loop.time() == stopped.now_s()
    assert loop.time() < stopped.now_s() - 500
