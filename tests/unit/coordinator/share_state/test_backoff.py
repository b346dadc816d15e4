"""Back-off of share groups: released records wait, here and at the next owner of the shard."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.share_state_messages import AckType
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_state.states import States, ranges

pytestmark = pytest.mark.unit

ACCEPT, RELEASE, REJECT = AckType.ACCEPT, AckType.RELEASE, AckType.REJECT


async def begun(backoff: str, **configs: Any) -> States:
    states = States()
    states.topics.group_configs["g"] = {"bmq.share.retry.backoff": backoff, **configs}
    await states.initialize(start=0)
    return states


async def passed(states: States, seconds: float) -> None:
    await asyncio.sleep(seconds)
    states.clock.advance(round(seconds * 1000))


def test_a_released_record_waits_twice_as_long_each_time() -> None:
    async def main() -> None:
        states = await begun("1s..3s")
        for count, wait_s in ((1, 1), (2, 2), (3, 3), (4, 3)):
            answer = await states.acquire("a", 1, batches=[(0, 0)])
            assert ranges(answer) == [(0, 0, count)]
            assert await states.acknowledge("a", (0, 0, RELEASE)) == 0
            await passed(states, wait_s - 0.1)
            assert ranges(await states.acquire("b", 1, batches=[(0, 0)])) == []
            news = asyncio.create_task(states.wait(answer.version))
            await passed(states, 0.11)
            assert [one.error_code for one in await news] == [0], "a member that waits hears of it"
        assert ranges(await states.acquire("a", 1, batches=[(0, 0)])) == [(0, 0, 5)]
        assert await states.acknowledge("a", (0, 0, RELEASE)) == 0
        assert (await states.summary()).start_offset == 1, "archived at the limit, without a wait"

    virtual(main)


def test_others_are_given_meanwhile_and_what_waits_cannot_be_acknowledged() -> None:
    async def main() -> None:
        states = await begun("10s")
        await states.acquire("a")
        assert await states.acknowledge("a", (3, 5, RELEASE)) == 0
        answer = await states.acquire("b")
        assert ranges(answer) == [(10, 19, 1)]
        assert await states.acknowledge("a", (3, 3, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE
        assert await states.acknowledge("a", (0, 2, ACCEPT), (6, 9, ACCEPT)) == 0
        assert (await states.summary()).start_offset == 3
        await passed(states, 10.1)
        assert ranges(await states.acquire("c")) == [(3, 5, 2), (20, 29, 1)]

    virtual(main)


def test_a_lock_that_runs_out_waits_too_and_a_session_that_ends_does_not() -> None:
    async def main() -> None:
        states = await begun("5s", **{"share.record.lock.duration.ms": "2000"})
        await states.acquire("a", session=1)
        await passed(states, 2.1)
        assert ranges(await states.acquire("b", batches=[(0, 9)])) == []
        await passed(states, 5.1)
        assert ranges(await states.acquire("b", batches=[(0, 9)], session=7)) == [(0, 9, 2)]
        assert await states.release("b", session=7) == 0
        assert ranges(await states.acquire("c", batches=[(0, 9)])) == [(0, 9, 3)]

    virtual(main)


def test_a_wait_goes_on_at_the_next_owner_of_the_shard() -> None:
    async def main() -> None:
        states = await begun("10s")
        await states.acquire("a")
        await states.acknowledge("a", (0, 9, RELEASE))
        await passed(states, 4)
        heir = states.take_over()
        assert ranges(await heir.acquire("b", batches=[(0, 9)])) == []
        await passed(heir, 5.9)
        assert ranges(await heir.acquire("b", batches=[(0, 9)])) == []
        await passed(heir, 1.2)
        assert ranges(await heir.acquire("b", batches=[(0, 9)])) == [(0, 9, 2)]

    virtual(main)


def test_a_snapshot_keeps_the_time_that_is_left() -> None:
    async def main() -> None:
        states = States(snapshot_records_max=10)
        states.topics.group_configs["g"] = {"bmq.share.retry.backoff": "10s,1h"}
        await states.initialize(start=0)
        for number in range(8):
            await states.acquire(f"m{number}")
            await states.acknowledge(f"m{number}", (10 * number + 5, 10 * number + 9, RELEASE))
        await asyncio.sleep(1)
        assert states.log().snapshots
        heir = states.take_over()
        assert ranges(await heir.acquire("x", batches=[(0, 79)])) == []
        states.clock.advance(10_000)
        later = heir.take_over()
        assert len(ranges(await later.acquire("x", 100, batches=[(0, 79)]))) == 8

    virtual(main)


def test_waiting_records_keep_their_place_in_the_limit_and_are_counted_apart() -> None:
    async def main() -> None:
        states = await begun("10s", **{"share.partition.max.record.locks": "100"})
        registry = CollectorRegistry()
        states.coordinator.metrics.register(registry)
        await states.acquire("a", 60)
        await states.acknowledge("a", (0, 59, RELEASE))
        assert registry.get_sample_value("bmq_share_delayed_records") == 60
        assert registry.get_sample_value("bmq_share_locked_records") == 0
        answer = await states.acquire("a", 100)
        assert (ranges(answer), answer.next_offset) == ([(60, 99, 1)], -1)
        news = asyncio.create_task(states.wait(answer.version))
        await passed(states, 10.1)
        assert len(await news) == 1
        assert registry.get_sample_value("bmq_share_delayed_records") == 0
        assert ranges(await states.acquire("b", 100, batches=[(0, 99)])) == [(0, 59, 2)]

    virtual(main)


def test_a_state_that_begins_again_forgets_what_waited() -> None:
    async def main() -> None:
        states = await begun("1s")
        await states.acquire("a")
        await states.acknowledge("a", (0, 9, RELEASE))
        await states.acquire("a", batches=[(10, 19)])
        assert await states.initialize(epoch=2, start=5) == 0
        assert ranges(await states.acquire("b", batches=[(0, 9)])) == [(5, 9, 1)]
        await passed(states, 1.1)
        assert ranges(await states.acquire("c", batches=[(0, 9)])) == [], "the lock is not that of the former state"
        assert states.coordinator.metrics.expired_locks == 0
        await passed(states, 30)
        assert states.coordinator.metrics.expired_locks == 1

    virtual(main)


def test_retention_may_pass_records_that_wait() -> None:
    async def main() -> None:
        states = await begun("5s")
        await states.acquire("a")
        await states.acknowledge("a", (0, 9, RELEASE))
        answer = await states.acquire("b", batches=[], log_start_offset=6)
        assert answer.start_offset == 6
        await passed(states, 5.1)
        assert ranges(await states.acquire("b", batches=[(0, 9)])) == [(6, 9, 2)]

    virtual(main)
