"""Turns: whoever comes, waits, gives up or is cancelled, one at a time holds a key, and in the order of coming."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.coordinator.transactions.turns import Turns
from tests.unit.coordinator.transactions.world import virtual

pytestmark = pytest.mark.unit

VISITS = st.tuples(
    st.sampled_from("ab"), st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.none() | st.integers(0, 9)
)
"""(key, comes at, waits so long, stays so long, is cancelled at), in tenths of a second."""


@given(st.lists(VISITS, max_size=12))
def test_one_at_a_time_in_order(visits: list[tuple[str, int, int, int, int | None]]) -> None:
    async def main() -> None:
        turns = Turns()
        loop = asyncio.get_running_loop()
        came: dict[str, list[int]] = {"a": [], "b": []}
        holders: dict[str, int] = {}
        served: dict[str, list[int]] = {"a": [], "b": []}

        async def visit(number: int, key: str, wait: int, stay: int) -> None:
            came[key].append(number)
            begun_s = loop.time()
            is_free = key not in holders
            taken = await turns.take(key, wait / 10)
            assert loop.time() <= begun_s + wait / 10 + 1e-6
            assert taken or not is_free
            if not taken:
                return
            assert key not in holders
            holders[key] = number
            served[key].append(number)
            try:
                await asyncio.sleep(stay / 10)
            finally:
                del holders[key]
                turns.give_back(key)

        tasks = []
        for number, (key, at, wait, stay, cancelled_at) in enumerate(visits):

            async def one(
                number: int = number, key: str = key, at: int = at, wait: int = wait, stay: int = stay
            ) -> None:
                await asyncio.sleep(at / 10 + number / 1_000)
                await visit(number, key, wait, stay)

            task = loop.create_task(one())
            tasks.append(task)
            if cancelled_at is not None:
                loop.call_later(cancelled_at / 10, task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not [task for task in tasks if not task.cancelled() and task.exception()]
        for key in "ab":
            order = [number for number in came[key] if number in served[key]]
            assert served[key] == order
            assert await turns.take(key, 0), "nobody holds what nobody uses"

    virtual(main)


def test_who_comes_when_a_turn_is_handed_on_stays_behind() -> None:
    async def main() -> None:
        turns = Turns()
        assert await turns.take("id", 0)
        waiting = asyncio.ensure_future(turns.take("id", 1))
        await asyncio.sleep(0)
        turns.give_back("id")
        assert not waiting.done() and not await turns.take("id", 0)
        assert await waiting
        turns.give_back("id")
        assert await turns.take("id", 0)

    virtual(main)
