"""Calls that are open are counted, in all and by address; memory is counted in bytes, and who needs more waits."""

from __future__ import annotations

import asyncio

import pytest

from bmq.gateway.byte_budget import ByteBudget
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.shared_bounds import WaitingBudget
from bmq.gateway.stream_limits import StreamLimits, host_of

pytestmark = pytest.mark.unit


def test_one_address_and_all_are_bounded_and_free_their_places() -> None:
    limits = StreamLimits(3, 2)
    with limits.open("ipv4:10.0.0.1:1"), limits.open("ipv4:10.0.0.1:2"):
        with pytest.raises(GatewayFailed, match="2 calls of this address") as failed, limits.open("ipv4:10.0.0.1:3"):
            pass
        assert failed.value.status == "RESOURCE_EXHAUSTED"
        with limits.open("ipv4:10.0.0.2:1"):
            with pytest.raises(GatewayFailed, match="3 calls are open"), limits.open("ipv4:10.0.0.3:1"):
                pass
            assert limits.count == 3
    assert limits.count == 0
    with limits.open("ipv4:10.0.0.1:4"):
        assert limits.count == 1


@pytest.mark.parametrize(
    ("peer", "host"),
    [
        ("ipv4:127.0.0.1:4711", "127.0.0.1"),
        ("ipv6:%5B::1%5D:4711", "[::1]"),
        ("unix:/run/x", "/run/x"),
        ("unknown", "unknown"),
    ],
)
def test_the_address_of_a_peer(peer: str, host: str) -> None:
    assert host_of(peer) == host


def test_a_budget_takes_one_large_thing_and_no_second() -> None:
    budget = ByteBudget(10)
    assert budget.has_room(100)
    budget.take(100)
    assert (budget.has_room(1), budget.free_bytes) == (False, 0)
    budget.give_back(95)
    assert (budget.has_room(5), budget.has_room(6), budget.free_bytes) == (True, False, 5)
    with pytest.raises(ValueError, match="1 bytes were given back"):
        budget.give_back(6)


async def test_who_needs_room_waits_in_order() -> None:
    room = WaitingBudget(10)
    await room.take(8)
    order: list[int] = []

    async def take(size: int) -> None:
        await room.take(size)
        order.append(size)

    large, small = asyncio.ensure_future(take(9)), asyncio.ensure_future(take(1))
    await asyncio.sleep(0)
    room.give_back(2)
    await asyncio.sleep(0)
    assert order == []
    room.give_back(6)
    await asyncio.gather(large, small)
    assert order == [9, 1]
    assert room.budget.used_bytes == 10


async def test_a_call_that_is_cancelled_while_it_waits_takes_nothing() -> None:
    room = WaitingBudget(10)
    await room.take(10)
    waiting = asyncio.ensure_future(room.take(5))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    room.give_back(10)
    await room.take(10)
    assert room.budget.used_bytes == 10
