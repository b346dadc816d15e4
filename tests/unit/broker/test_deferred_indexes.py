"""Indexes of segments that a start had to read are written once no partition starts: they cost a third of a start."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import pytest

from bmq.broker.partition_events import RECOVERED
from bmq.broker.partition_states import Idle, Released, Writing
from bmq.broker.runtime import PartitionRuntime
from bmq.broker.start_queue import LEFTOVERS_MAX
from tests.fakes.namespace import files_below
from tests.unit.broker.world import CONFIG, Owner, World, produce, virtual

pytestmark = pytest.mark.unit


async def after_a_kill(world: World) -> tuple[Owner, PartitionRuntime, asyncio.Task[None]]:
    """The next owner, its log, and a start of another partition that does not end."""
    first = world.owner()
    await produce(await first.log(), b"a")
    first.kill()
    second = world.owner()
    other = asyncio.ensure_future(other_start(second))
    await asyncio.sleep(0)
    log = await second.log()
    return second, log, other


async def other_start(owner: Owner) -> None:
    async with owner.manager.context.starts.slot("another partition", is_awaited=True):
        await asyncio.Event().wait()


def indexes(world: World) -> list[str]:
    return [path for path, _ in files_below(world.store.namespace.root, "") if path.endswith(".index")]


def is_due(log: PartitionRuntime) -> bool:
    assert isinstance(log.state, Writing)
    return RECOVERED in log.state.unindexed


@asynccontextmanager
async def ended(task: asyncio.Task[None]) -> AsyncIterator[None]:
    yield
    task.cancel()
    await asyncio.wait({task})


def test_an_index_waits_for_the_starts_of_others_and_no_batch_does() -> None:
    async def main() -> None:
        world = World(index_wait_max_s=3600.0)
        owner, log, other = await after_a_kill(world)
        await produce(log, b"b")
        await asyncio.sleep(20)
        assert is_due(log)
        written = len(indexes(world))
        other.cancel()
        await asyncio.sleep(1)
        assert not is_due(log) and len(indexes(world)) == written + 1
        await owner.manager.close()

    virtual(main)


def test_an_index_waits_for_a_limited_time() -> None:
    async def main() -> None:
        world = World(index_wait_max_s=20.0)
        owner, log, other = await after_a_kill(world)
        async with ended(other):
            await asyncio.sleep(19)
            assert is_due(log)
            await asyncio.sleep(2)
            assert not is_due(log)
            await owner.manager.close()

    virtual(main)


def test_a_partition_that_closes_its_idle_segment_can_open_another() -> None:
    async def main() -> None:
        world = World(index_wait_max_s=3600.0)
        owner, log, other = await after_a_kill(world)
        async with ended(other):
            await produce(log, b"b")
            await asyncio.sleep(CONFIG.segment_idle_close_ms / 1000 + 10)
            assert isinstance(log.state, Idle) and RECOVERED not in log.state.unindexed
            await asyncio.wait_for(produce(log, b"c"), 1)
            await owner.manager.close()

    virtual(main)


def test_a_stop_does_not_wait_for_the_starts_of_others() -> None:
    async def main() -> None:
        world = World(index_wait_max_s=3600.0)
        _, log, other = await after_a_kill(world)
        async with ended(other):
            began_s = asyncio.get_running_loop().time()
            log.stop()
            await asyncio.wait_for(asyncio.shield(log.ended), 1)
            assert isinstance(log.state, Released)
            assert asyncio.get_running_loop().time() - began_s < 0.1
            assert indexes(world)

    virtual(main)


def test_a_segment_that_fills_gets_its_successor_in_time() -> None:
    """The segment after the first one is not opened before the index is durable (rule 4)."""

    async def main() -> None:
        world = World(index_wait_max_s=3600.0)
        first = world.owner(replace(CONFIG, segment_bytes=4000))
        await produce(await first.log(), b"a")
        first.kill()
        second = world.owner(replace(CONFIG, segment_bytes=4000))
        other = asyncio.ensure_future(other_start(second))
        async with ended(other):
            await asyncio.sleep(0)
            log = await second.log()
            await asyncio.sleep(5)
            assert is_due(log)
            for number in range(60):
                await asyncio.wait_for(produce(log, b"%100d" % number), 1)
                await asyncio.sleep(0.1)
            assert isinstance(log.state, Writing) and log.state.segment.roll > 1
            await second.manager.close()

    virtual(main)


@asynccontextmanager
async def hanging_indexes(owner: Owner) -> AsyncIterator[None]:
    """As many other partitions as may write theirs at once have a store that does not answer."""
    async with AsyncExitStack() as turns:
        for _ in range(LEFTOVERS_MAX):
            await turns.enter_async_context(owner.manager.context.starts.leftovers)
        yield


async def after_a_kill_with_hanging_indexes(world: World) -> tuple[Owner, PartitionRuntime, AsyncExitStack]:
    segments = replace(CONFIG, segment_bytes=4000)
    first = world.owner(segments)
    await produce(await first.log(), b"a")
    first.kill()
    second, hanging = world.owner(segments), AsyncExitStack()
    await hanging.enter_async_context(hanging_indexes(second))
    log = await second.log()
    await asyncio.sleep(5)
    assert is_due(log)
    return second, log, hanging


def test_a_stop_does_not_wait_for_the_indexes_of_others() -> None:
    async def main() -> None:
        world = World()
        _, log, hanging = await after_a_kill_with_hanging_indexes(world)
        async with hanging:
            log.stop()
            await asyncio.wait_for(asyncio.shield(log.ended), 1)
            assert isinstance(log.state, Released) and indexes(world)

    virtual(main)


def test_a_segment_that_fills_does_not_wait_for_the_indexes_of_others() -> None:
    async def main() -> None:
        world = World()
        owner, log, hanging = await after_a_kill_with_hanging_indexes(world)
        async with hanging:
            for number in range(60):
                await asyncio.wait_for(produce(log, b"%100d" % number), 1)
                await asyncio.sleep(0.1)
            assert isinstance(log.state, Writing) and log.state.segment.roll > 1
        await owner.manager.close()

    virtual(main)


def test_a_store_that_fails_for_one_partition_keeps_no_other_from_writing_its_index() -> None:
    async def main() -> None:
        world = World()
        owner, log, hanging = await after_a_kill_with_hanging_indexes(world)
        leftovers = owner.manager.context.starts.leftovers
        world.store.faults.unavailable_rate = 1.0
        await hanging.aclose()
        await asyncio.sleep(10)
        assert is_due(log)
        for _ in range(20):
            # It waits for its next try most of the time, and holds no turn meanwhile.
            async with asyncio.timeout(1), AsyncExitStack() as turns:
                for _ in range(LEFTOVERS_MAX):
                    await turns.enter_async_context(leftovers)
        world.calm()
        await asyncio.sleep(5)
        assert not is_due(log) and not leftovers.locked()
        await owner.manager.close()

    virtual(main)


def test_a_partition_that_ends_leaves_its_turn_to_others() -> None:
    async def main() -> None:
        world = World()
        owner, log, hanging = await after_a_kill_with_hanging_indexes(world)
        log.give_up()
        await asyncio.sleep(1)
        await hanging.aclose()
        await asyncio.sleep(1)
        leftovers = owner.manager.context.starts.leftovers
        async with asyncio.timeout(1), AsyncExitStack() as turns:
            for _ in range(LEFTOVERS_MAX):
                await turns.enter_async_context(leftovers)

    virtual(main)
