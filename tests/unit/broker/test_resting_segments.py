"""A segment that rests is replaced when a node of it is lost, so that the loss of the others later loses nothing (rule 53)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from bmq.broker.broken_closes import RUNNING_MAX, BrokenCloses
from bmq.broker.manager import PartitionManager
from bmq.broker.partition_states import Idle, Mending, Writing
from bmq.broker.upkeep import REST_S_MAX
from bmq.log.config import NEVER_MS
from bmq.log.partition_log import TopicPartition
from tests.unit.broker.world import CONFIG, KEY, World, produce, read_all, virtual

pytestmark = pytest.mark.unit

KEPT_OPEN = replace(CONFIG, segment_idle_close_ms=NEVER_MS)
PATIENT = replace(CONFIG, segment_idle_close_ms=10**7)
SEEN_S = REST_S_MAX + 3


@pytest.mark.parametrize("config", [KEPT_OPEN, PATIENT])
def test_nodes_lost_one_after_the_other_lose_nothing(config: object) -> None:
    """The store copies closed files alone. The nodes never return, as if their disks were lost."""

    async def main() -> None:
        world = World(node_count=4)
        owner = world.owner(config)  # type: ignore[arg-type]
        log = await owner.log()
        await produce(log, b"a")
        for _ in range(3):
            world.lose_nodes(1)
            await asyncio.sleep(SEEN_S)
            world.store.replicate()
        owner.kill()
        log = await world.owner(floor=1).log()
        assert [value for _, value in await read_all(log)] == [b"a"]

    virtual(main)


@pytest.mark.parametrize("is_written", [True, False])
def test_a_log_that_is_kept_open_goes_on_in_a_new_segment(is_written: bool) -> None:
    """The metadata log: with an open segment its owner proves itself to DataNodes, not to the NameNode."""

    async def main() -> None:
        world = World()
        log = await world.owner(KEPT_OPEN).log()
        if is_written:
            await produce(log, b"a")
        await asyncio.sleep(300)
        world.lose_nodes(1)
        await asyncio.sleep(0.1)
        assert log.is_under_replicated == is_written
        await asyncio.sleep(SEEN_S)
        assert isinstance(log.state, Writing) and (log.state.segment.roll, log.state.replicas) == (1, 2)
        assert not log.is_under_replicated
        assert len(world.open_files()) == 1
        await produce(log, b"b")
        assert [value for _, value in await read_all(log)] == [b"a", b"b"][not is_written :]

    virtual(main)


@pytest.mark.parametrize("is_written", [True, False])
def test_other_logs_close_theirs_and_open_one_for_the_next_batch(is_written: bool) -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(PATIENT).log()
        if is_written:
            await produce(log, b"a")
        await asyncio.sleep(300)
        assert isinstance(log.state, Writing)
        world.lose_nodes(1)
        await asyncio.sleep(SEEN_S)
        assert isinstance(log.state, Idle) and not world.open_files() and not log.is_under_replicated
        await produce(log, b"b")
        assert [value for _, value in await read_all(log)] == [b"a", b"b"][not is_written :]

    virtual(main)


def test_a_segment_that_lost_no_node_rests() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(KEPT_OPEN).log()
        await produce(log, b"a")
        world.store.lose_node(world.store.nodes.up()[0], is_hung=True)
        world.return_nodes()
        await asyncio.sleep(1_000)
        assert isinstance(log.state, Writing) and log.state.segment.roll == 0

    virtual(main)


def test_a_new_owner_took_the_segment_meanwhile() -> None:
    """Closing it shows that its owner was replaced: nothing of the new one's is touched."""

    async def main() -> None:
        world = World()
        zombie = world.owner(KEPT_OPEN)
        stale = await zombie.log()
        await produce(stale, b"a")
        log = await world.owner(KEPT_OPEN).log()
        await produce(log, b"b")
        world.lose_nodes(1)
        await asyncio.sleep(SEEN_S)
        assert stale.state.is_final
        assert not stale.is_under_replicated
        await produce(log, b"c")
        assert [value for _, value in await read_all(log)] == [b"a", b"b", b"c"]

    virtual(main)


def test_until_the_store_takes_changes_again_few_closes_are_begun_and_then_all() -> None:
    """A DataNode dies that holds a segment of each partition, while the NameNode is in safe mode."""

    async def main() -> None:
        count = 40
        world = World()
        client = world.store.client("owner")
        manager = PartitionManager(client, "owner", world.clock, Random(1), world.settings)
        keys = [TopicPartition(KEY.topic_id, number) for number in range(count)]
        for key in keys:
            manager.assign(key, 1, "topic", PATIENT, 0)
        logs = [await manager.leader_of(key) for key in keys]
        for log in logs:
            await produce(log, b"a")
        world.store.faults.unavailable_rate = 1.0
        world.lose_nodes(1)
        await asyncio.sleep(300)
        begun = [log for log in logs if not isinstance(log.state, Writing)]
        assert 1 <= len(begun) <= RUNNING_MAX + world.settings.broken_closes_per_s
        assert sum(log.is_under_replicated for log in logs) == count
        world.store.faults.unavailable_rate = 0.0
        await asyncio.sleep(30)
        assert all(isinstance(log.state, Idle) and not log.is_under_replicated for log in logs)
        assert not world.open_files()
        await manager.close()

    virtual(main)


def test_a_batch_that_comes_first_mends_as_ever() -> None:
    async def main() -> None:
        world = World()
        log = await world.owner(KEPT_OPEN).log()
        await produce(log, b"a")
        world.lose_nodes(1)
        await produce(log, b"b")
        assert isinstance(log.state, Writing | Mending)
        await asyncio.sleep(SEEN_S)
        assert log.state.segment.roll == 1

    virtual(main)


def test_closes_are_paced_and_wait_for_those_that_run() -> None:
    closes = BrokenCloses(per_s=4.0)
    assert [closes.take(1.0) for _ in range(5)] == [True] * 4 + [False]
    assert closes.take(1.25) and not closes.take(1.25)
    running = [closes.running() for _ in range(RUNNING_MAX)]
    for one in running:
        one.__enter__()
    assert not closes.take(9.0)
    with closes.running(False):
        assert not closes.take(9.0)
    running[0].__exit__(None, None, None)
    assert closes.take(9.0)
