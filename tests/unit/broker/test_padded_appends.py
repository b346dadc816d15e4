"""What a topic with hsync acknowledged outlives a power loss in the middle of the next append (rule 27)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from bmq.log.config import LogConfig
from bmq.log.store import Durability
from tests.fakes.namespace import files_below
from tests.fakes.store import CHUNK_BYTES
from tests.unit.broker.world import CONFIG, World, append, batch_of, produce, read_all, read_from_store, virtual

pytestmark = pytest.mark.unit

HSYNC = replace(CONFIG, durability=Durability.HSYNC)
SIZES = (0, 1, 300, 439, 440, 451, 700, 5_000)  # a batch of these ends anywhere in a chunk


def segments(world: World) -> dict[str, int]:
    """Length of each segment file, by path."""
    files = files_below(world.store.namespace.root, "")
    return {path: len(file.data) for path, file in files if path.endswith(".log")}


def random_value(random: Random) -> bytes:
    return random.randbytes(random.choice(SIZES))


def test_every_append_ends_a_chunk() -> None:
    async def main() -> None:
        world, random = World(), Random(1)
        owner = world.owner(HSYNC)
        log = await owner.log()
        values = [random_value(random) for _ in range(60)]
        for first in range(0, 60, 3):
            await asyncio.gather(*(append(log, batch_of(value)) for value in values[first : first + 3]))
            assert all(length % CHUNK_BYTES == 0 for length in segments(world).values())
        expected = list(enumerate(values))
        assert await read_all(log) == expected
        assert await read_from_store(owner) == expected
        owner.kill()
        assert await read_all(await world.owner(HSYNC).log()) == expected

    virtual(main)


@pytest.mark.parametrize("seed", range(8))
def test_a_power_loss_during_an_append_costs_nothing(seed: int) -> None:
    async def main() -> None:
        world, random = World(seed), Random(seed)
        expected: list[tuple[int, bytes]] = []
        for _ in range(12):
            owner = world.owner(HSYNC)
            log = await owner.log()
            for _ in range(random.randint(1, 5)):
                value = random_value(random)
                expected.append((await produce(log, value), value))
            append(log, batch_of(random_value(random)))
            await asyncio.sleep(0)
            world.store.crash_machine()
            owner.kill()
        found = await read_all(await world.owner(HSYNC).log())
        assert set(expected) <= set(found)
        assert world.store.counts.lost_chunks

    virtual(main)


@pytest.mark.parametrize("has_records", [True, False])
def test_a_topic_that_asks_for_hsync_later_gets_it_soon(has_records: bool) -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(CONFIG)
        log = await owner.log()
        expected = []
        if has_records:
            expected.append((await produce(log, b"before"), b"before"))
        owner.manager.update_config(log.topic_partition, HSYNC)
        await asyncio.sleep(5)
        expected.append((await produce(log, b"after"), b"after"))
        world.store.crash_machine()
        owner.kill()
        assert expected[-1] in await read_all(await world.owner(HSYNC).log())

    virtual(main)


def test_nothing_is_padded_where_nobody_asks_for_it_or_the_root_has_an_older_format() -> None:
    async def main() -> None:
        for config, may_pad in ((CONFIG, True), (HSYNC, False)):
            world = World()
            owner = world.owner(config)
            owner.manager.context.may_pad = may_pad
            log = await owner.log()
            batches = [batch_of(b"v" * size) for size in SIZES]
            for batch in batches:
                await append(log, batch)
            assert sum(segments(world).values()) == sum(map(len, batches))

    virtual(main)


def test_a_segment_may_be_padded_in_part() -> None:
    async def main() -> None:
        world = World()
        owner = world.owner(HSYNC)
        log = await owner.log()
        for number in range(10):
            for segment in log.inspect().lifecycle.segments.values():
                segment.alignment_bytes = CHUNK_BYTES if number >= 5 else 1
            await produce(log, b"%d" % number)
        assert [length % CHUNK_BYTES for length in segments(world).values() if length] == [0]
        expected = [(number, b"%d" % number) for number in range(10)]
        assert await read_from_store(owner) == expected
        owner.kill()
        assert await read_all(await world.owner(HSYNC).log()) == expected

    virtual(main)


def test_padding_counts_as_room_of_the_segment() -> None:
    async def main() -> None:
        world = World()
        config = LogConfig(segment_bytes=8 * CHUNK_BYTES, durability=Durability.HSYNC)
        owner = world.owner(config)
        log = await owner.log()
        for number in range(40):
            await produce(log, b"%d" % number)
        lengths = segments(world).values()
        assert len(lengths) >= 5 and max(lengths) <= config.segment_bytes
        assert await read_from_store(owner) == [(number, b"%d" % number) for number in range(40)]

    virtual(main)
