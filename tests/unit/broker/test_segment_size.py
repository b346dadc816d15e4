"""How long segments become in a store where an open one keeps room from others."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.broker.segment_size import FILL_S, first_segment_bytes, next_segment_bytes
from bmq.log.config import LogConfig
from bmq.log.store import StorageFull
from tests.unit.broker.world import CONFIG, Owner, World, produce, virtual

pytestmark = pytest.mark.unit

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        (LogConfig(), 8 * MIB),
        (LogConfig(segment_bytes=MIB), MIB),
        (LogConfig(max_message_bytes=20 * MIB), 20 * MIB),
        (LogConfig(segment_bytes=16 * MIB, max_message_bytes=20 * MIB), 16 * MIB),
    ],
)
def test_the_first_one_is_short_and_takes_the_longest_batch(config: LogConfig, wanted: int) -> None:
    assert first_segment_bytes(config, 8 * MIB) == wanted


@given(st.integers(0, 2**31), st.floats(0, 1e6), st.integers(1, 2**30), st.integers(1, 2**30))
def test_the_next_one_lasts_ten_minutes_within_its_bounds(
    written_bytes: int, written_s: float, segment_bytes: int, first_bytes: int
) -> None:
    config = LogConfig(segment_bytes=segment_bytes, max_message_bytes=100)
    size = next_segment_bytes(config, first_bytes, written_bytes, written_s)
    assert first_segment_bytes(config, first_bytes) <= size <= segment_bytes
    if first_segment_bytes(config, first_bytes) < size < segment_bytes:
        assert size == pytest.approx(written_bytes / max(written_s, 0.001) * FILL_S, abs=1, rel=1e-9)


def sizes_asked(owner: Owner) -> list[int]:
    """What segments of this owner were opened for, from now on."""
    sizes: list[int] = []
    create = owner.client.create_segment

    async def create_segment(*arguments: Any, segment_bytes: int, **named: Any) -> Any:
        sizes.append(segment_bytes)
        return await create(*arguments, segment_bytes=segment_bytes, **named)

    owner.client.create_segment = create_segment  # type: ignore[method-assign]
    return sizes


def test_a_partition_begins_small_and_grows_with_its_rate() -> None:
    async def main() -> None:
        world = World(segment_first_bytes=2_000)
        owner = world.owner(replace(CONFIG, segment_bytes=MIB, max_message_bytes=1_500))
        sizes = sizes_asked(owner)
        log = await owner.log()
        for _ in range(12):
            await produce(log, b"v" * 500)
            await asyncio.sleep(2)
        assert sizes[0] == 2_000
        assert 100_000 < sizes[1] < MIB, "a quarter of a KiB a second for ten minutes"
        lengths = [len(data) for path, data in world.store.files().items() if path.endswith(".log")]
        assert lengths[0] <= 2_000 and len(lengths) == 2

    virtual(main)


def test_a_store_without_room_is_asked_for_less() -> None:
    async def main() -> None:
        world = World(segment_first_bytes=2_000)
        owner = world.owner(replace(CONFIG, segment_bytes=MIB, max_message_bytes=1_500))
        log = await owner.log()
        create = owner.client.create_segment
        sizes: list[int] = []

        async def create_segment(path: str, *, segment_bytes: int, **named: Any) -> Any:
            sizes.append(segment_bytes)
            if segment_bytes > 2_000:
                raise StorageFull(path)
            return await create(path, segment_bytes=segment_bytes, **named)

        owner.client.create_segment = create_segment  # type: ignore[method-assign]
        for _ in range(12):
            await produce(log, b"v" * 500)
        assert sizes[0] > 2_000 and sizes[1] == 2_000
        assert log.high_watermark == 12

    virtual(main)
