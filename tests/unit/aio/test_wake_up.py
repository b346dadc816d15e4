"""One wake-up for all that ask, at the earliest time, on virtual time and on uvloop."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from bmq.aio.wake_up import WakeUp
from tests.unit.broker.world import virtual

pytestmark = pytest.mark.unit


def test_it_wakes_once_at_the_earliest_time() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        woken_s: list[float] = []
        wake_up = WakeUp(loop, lambda: woken_s.append(loop.time()))
        for wait_s in (3.0, 1.0, 2.0):
            wake_up.within(wait_s)
        await asyncio.sleep(5.0)
        assert woken_s == [1.0]
        wake_up.within(2.0)
        wake_up.cancel()
        await asyncio.sleep(3.0)
        wake_up.within(1.0)
        await asyncio.sleep(2.0)
        assert woken_s == [1.0, 9.0]

    virtual(main)


def test_it_may_ask_again_as_it_wakes() -> None:
    async def main() -> None:
        woken: list[int] = []

        def wake() -> None:
            woken.append(len(woken))
            if len(woken) < 3:
                wake_up.within(0.0)

        wake_up = WakeUp(asyncio.get_running_loop(), wake)
        wake_up.within(0.0)
        await asyncio.sleep(1.0)
        assert woken == [0, 1, 2]

    virtual(main)


def test_at_once_may_be_asked_for_twice_in_a_turn() -> None:
    """uvloop gives a handle without a time for what it calls at once."""

    async def main() -> None:
        woken = asyncio.Event()
        wake_up = WakeUp(asyncio.get_running_loop(), woken.set)
        wake_up.within(60.0)
        for _ in range(3):
            wake_up.within(0.0)
        async with asyncio.timeout(10):
            await woken.wait()

    uvloop.run(main())
