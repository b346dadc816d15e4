"""The loop that unit tests run on does not count the time for which the process stood still, and all other time."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from tests.fakes.stall_free_loop import TURN_S_MAX, WAIT_S_MAX, StallFreeLoop, StallFreeTime

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]

STALL_S = 30.0


class StallingClock:
    """The machine's, and what a test adds to it."""

    def __init__(self) -> None:
        self.stalled_s = 0.0

    def now_s(self) -> float:
        return time.monotonic() + self.stalled_s


def run_beside_stalls(story: object, clock: StallingClock) -> None:
    with asyncio.Runner(loop_factory=lambda: StallFreeLoop(clock.now_s)) as runner:
        runner.run(story)  # type: ignore[arg-type]


async def test_unit_tests_and_their_fixtures_run_on_it(loop_time: object) -> None:
    assert isinstance(asyncio.get_running_loop(), StallFreeLoop)


def test_what_passes_in_small_steps_counts_and_a_long_step_as_one_of_a_turn() -> None:
    real_s = 100.0
    passing = StallFreeTime(lambda: real_s)
    for _ in range(10):
        real_s += TURN_S_MAX / 2
        passing.now_s()
    assert passing.now_s() == pytest.approx(100 + 5 * TURN_S_MAX)
    real_s += STALL_S
    assert passing.now_s() == pytest.approx(100 + 6 * TURN_S_MAX)
    real_s += STALL_S
    assert passing.pass_s_at_most(1.0) == 1.0
    assert passing.now_s() == pytest.approx(101 + 6 * TURN_S_MAX)


def test_a_time_out_outlives_a_stall_of_this_process() -> None:
    clock = StallingClock()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        async with asyncio.timeout(1):
            for _ in range(20):
                clock.stalled_s += STALL_S
                await asyncio.sleep(0)
        assert loop.time() - begun_s < 1

    run_beside_stalls(story(), clock)


def test_a_time_out_outlives_a_stall_in_a_wait() -> None:
    clock = StallingClock()

    async def story() -> None:
        come = asyncio.Event()
        loop = asyncio.get_running_loop()

        def stall_and_come() -> None:
            clock.stalled_s += STALL_S
            loop.call_soon_threadsafe(come.set)

        begun_s = loop.time()
        thread = threading.Thread(target=stall_and_come)
        async with asyncio.timeout(STALL_S / 2):
            thread.start()
            await come.wait()
        thread.join()
        assert loop.time() - begun_s < STALL_S / 2

    run_beside_stalls(story(), clock)


@pytest.mark.parametrize("seconds", [0.001, WAIT_S_MAX, 2.5 * WAIT_S_MAX])
async def test_a_wait_takes_its_time(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    began_s, begun_s = time.monotonic(), loop.time()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()
    assert time.monotonic() - began_s >= seconds and loop.time() - begun_s >= seconds


async def test_who_waits_without_a_limit_hears_of_a_thread() -> None:
    come = asyncio.Event()
    loop = asyncio.get_running_loop()
    timer = threading.Timer(3 * WAIT_S_MAX, lambda: loop.call_soon_threadsafe(come.set))
    timer.start()
    await come.wait()
    timer.join()
