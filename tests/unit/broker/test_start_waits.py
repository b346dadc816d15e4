"""Partitions that cannot be started are known as such, and not any more once they can or have moved."""

from __future__ import annotations

import asyncio

import pytest

from bmq.broker.start_waits import StartWait, StartWaits
from bmq.protocol.errors import KafkaError
from tests.fakes.store import Faults
from tests.unit.broker.world import KEY, World, virtual

pytestmark = pytest.mark.unit


def test_the_longest_wait_of_each_partition_is_told_with_the_last_reason() -> None:
    now_s = 0.0
    waits = StartWaits(lambda: now_s)
    closing, opening, other = object(), object(), object()
    waits.failed(closing, "orders-0", "no room")
    now_s = 2.0
    waits.failed(opening, "orders-0", "quota")
    waits.failed(other, "orders-1", "away")
    now_s = 7.0
    waits.failed(closing, "orders-0", "still no room")
    assert waits.longer_than(6.0) == (StartWait("orders-0", 7.0, "still no room"),)
    assert waits.longer_than(5.0) == (StartWait("orders-0", 7.0, "still no room"), StartWait("orders-1", 5.0, "away"))
    waits.ended(closing)
    assert waits.longer_than(0.0) == (StartWait("orders-0", 5.0, "quota"), StartWait("orders-1", 5.0, "away"))
    for effect in (closing, opening, other):
        waits.ended(effect)
    assert waits.longer_than(0.0) == ()


@pytest.mark.parametrize("is_moved", [False, True], ids=["the store is back", "the partition moved"])
def test_a_start_that_the_store_refuses_is_known_until_it_ends(is_moved: bool) -> None:
    async def main() -> None:
        world = World(0, Faults(unavailable_rate=1.0))
        owner = world.owner()
        waits = owner.manager.context.start_waits
        starting = asyncio.ensure_future(owner.log())
        await asyncio.sleep(4.9)
        assert waits.longer_than(5.0) == ()
        await asyncio.sleep(1.0)
        (wait,) = waits.longer_than(5.0)
        assert (wait.partition, round(wait.waited_s)) == ("topic-0", 6)
        assert wait.reason.startswith("StorageUnavailable: ")
        if is_moved:
            owner.manager.drop(KEY)
            world.calm()
            with pytest.raises(KafkaError):
                await starting
            await asyncio.sleep(5.0)
        else:
            world.calm()
            await starting
        assert waits.longer_than(0.0) == ()
        await owner.manager.close()

    virtual(main)
