"""A group's limits are lowered while its records are out."""

from __future__ import annotations

import asyncio

import pytest

from bmq.protocol.share_state_messages import AckType
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_state.states import States, ranges

pytestmark = pytest.mark.unit


def test_fewer_locks_than_are_held_stop_delivery_until_enough_are_settled() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        batches = [(first, first + 99) for first in range(0, 500, 100)]
        assert ranges(await states.acquire("a", 300, batches=batches)) == [(0, 299, 1)]
        states.topics.group_configs["g"] = {"share.partition.max.record.locks": "100"}
        answer = await states.acquire("b", 50, batches=batches)
        assert (ranges(answer), answer.next_offset) == ([], -1)
        assert await states.acknowledge("a", (0, 199, AckType.ACCEPT)) == 0
        assert ranges(await states.acquire("b", 50, batches=batches)) == []
        assert await states.acknowledge("a", (200, 249, AckType.ACCEPT)) == 0
        assert ranges(await states.acquire("b", 50, batches=batches)) == [(300, 349, 1)]
        assert (await states.summary()).locked_count == 100

    virtual(main)


def test_a_record_that_was_given_more_often_than_now_allowed_is_archived_when_it_comes_back() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        for count in (1, 2, 3):
            assert ranges(await states.acquire("a", 1, batches=[(0, 0)])) == [(0, 0, count)]
            assert await states.acknowledge("a", (0, 0, AckType.RELEASE)) == 0
        assert ranges(await states.acquire("a", 1, batches=[(0, 0)])) == [(0, 0, 4)]
        states.topics.group_configs["g"] = {"share.delivery.count.limit": "2"}
        assert await states.acknowledge("a", (0, 0, AckType.RELEASE)) == 0
        assert (await states.summary()).start_offset == 1
        assert ranges(await states.acquire("a", 1, batches=[(0, 0), (1, 1)])) == [(1, 1, 1)]

    virtual(main)


def test_a_shorter_lock_counts_for_what_is_given_from_now_on() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        await states.acquire("a", 10)
        states.topics.group_configs["g"] = {"share.record.lock.duration.ms": "2000"}
        assert ranges(await states.acquire("b", 10)) == [(10, 19, 1)]
        await asyncio.sleep(5)
        assert await states.acknowledge("a", (0, 9, AckType.ACCEPT)) == 0
        assert ranges(await states.acquire("c", 10)) == [(10, 19, 2)]

    virtual(main)
