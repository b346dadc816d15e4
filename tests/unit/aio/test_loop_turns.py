"""Long works on one loop: each turn of the loop has a part of one of them, in the order in which they asked."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from bmq.aio.loop_turns import LoopTurns, run_in_turns

pytestmark = pytest.mark.unit


async def test_a_turn_of_the_loop_has_one_part_of_one_work() -> None:
    turns = LoopTurns()
    loop_turn = 0
    parts: list[tuple[int, str]] = []

    def count() -> None:
        nonlocal loop_turn
        loop_turn += 1
        asyncio.get_running_loop().call_soon(count)

    async def work(name: str) -> None:
        for _ in range(5):
            await turns.next()
            parts.append((loop_turn, name))

    count()
    async with asyncio.timeout(10):
        await asyncio.gather(*(work(name) for name in "abc"))
    assert len({turn for turn, _ in parts}) == len(parts) == 15
    assert [name for _, name in parts] == list("abc") * 5
    assert turns.waiting_count == 0


async def test_a_work_that_is_cancelled_leaves_its_turn_to_the_next() -> None:
    turns = LoopTurns()
    gone = asyncio.ensure_future(turns.next())
    waiting = asyncio.ensure_future(turns.next())
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(10):
        await waiting
    assert gone.cancelled()


async def test_the_result_of_a_work_and_what_it_raises() -> None:
    def steps(result: int) -> Generator[None, None, int]:
        yield
        if result < 0:
            raise ValueError(result)
        return result

    turns = LoopTurns()
    assert await run_in_turns(steps(3), turns) == 3
    with pytest.raises(ValueError, match="-1"):
        await run_in_turns(steps(-1), turns)
