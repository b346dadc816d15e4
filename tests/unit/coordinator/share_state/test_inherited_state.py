"""A new owner goes on with locks, back-offs and dead letters although nothing asks for their shards."""

from __future__ import annotations

import asyncio

import pytest

from bmq.coordinator.share_state.partition import PartitionKey, SharePartition
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import AckType, state_key
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_state.states import TOPIC, States, ranges
from tests.unit.coordinator.share_state.test_dead_letters import FakeLetters, begun

pytestmark = pytest.mark.unit


def partition_of(states: States) -> SharePartition:
    """The share partition in memory; a look that loads nothing."""
    key = PartitionKey("g", TOPIC, 0)
    (shard,) = (shard for shard in states.coordinator.directory.ready.values() if key in shard.partitions)
    return shard.partitions[key]


def counts(states: States) -> tuple[int, int]:
    """Records that are locked, and records that wait for a back-off."""
    window = partition_of(states).window
    assert window is not None
    return window.locked, window.delayed


async def with_waiting_letters() -> tuple[States, FakeLetters]:
    """Ten records are rejected, and their dead letters cannot be written yet."""
    letters = FakeLetters()
    letters.failure = lambda dead: "topic dlq.t does not exist"
    states = await begun(letters)
    await states.acquire("a")
    assert await states.acknowledge("a", (0, 9, AckType.REJECT)) == 0
    return states, letters


def test_dead_letters_are_written_although_no_member_is_left() -> None:
    async def main() -> None:
        states, letters = await with_waiting_letters()
        letters = FakeLetters()
        heir = States(states, letters)
        heir.coordinator.shards_changed()
        await asyncio.sleep(1)
        assert letters.offsets == list(range(10))

    virtual(main)


def test_locks_run_out_and_back_offs_end_although_nobody_asks() -> None:
    async def main() -> None:
        states = States()
        configs = {"share.record.lock.duration.ms": "2000", "bmq.share.retry.backoff": "5s"}
        states.topics.group_configs["g"] = configs
        await states.initialize(start=0)
        assert ranges(await states.acquire("a", batches=[(0, 9)])) == [(0, 9, 1)]
        heir = states.take_over()
        heir.coordinator.shards_changed()
        await asyncio.sleep(0.1)
        assert counts(heir) == (10, 0)
        await asyncio.sleep(3)
        assert counts(heir) == (0, 10), "the lock has run out, and the records wait for their back-off"
        await asyncio.sleep(5.1)
        assert counts(heir) == (0, 0)
        assert ranges(await heir.acquire("b", batches=[(0, 9)])) == [(0, 9, 2)]

    virtual(main)


def test_one_shard_is_loaded_at_a_time_and_a_request_does_not_wait_for_the_others() -> None:
    async def main() -> None:
        states = States()
        for partition in range(20):
            await states.initialize(start=0, partition=partition)
        heir = states.take_over()
        heir.shards.gate = asyncio.Event()
        heir.coordinator.shards_changed()
        await asyncio.sleep(0.1)
        place = heir.coordinator.directory.number_of
        last = next(one for one in range(20) if place(state_key("g", TOPIC, one)) == 3)
        asked = asyncio.create_task(heir.initialize(partition=last))
        await asyncio.sleep(0.1)
        assert heir.shards.opened == [0, 3]
        heir.shards.gate.set()
        assert await asked == ErrorCode.NONE
        await asyncio.sleep(1)
        assert sorted(heir.shards.opened) == [0, 1, 2, 3]

    virtual(main)


def test_a_shard_that_cannot_be_loaded_is_tried_again_with_pauses() -> None:
    async def main() -> None:
        states, letters = await with_waiting_letters()
        letters = FakeLetters()
        heir = States(states, letters)
        heir.shards.error = KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition is starting")
        heir.coordinator.shards_changed()
        await asyncio.sleep(60)
        assert 4 * 20 < len(heir.shards.opened) < 4 * 60, "after the first seconds every other second"
        heir.shards.error = None
        await asyncio.sleep(3)
        assert letters.offsets == list(range(10))

    virtual(main)


def test_a_shard_that_is_lost_at_its_first_owner_is_loaded_again() -> None:
    async def main() -> None:
        states, letters = await with_waiting_letters()
        (shard,) = states.coordinator.directory.ready.values()
        shard.fail(RuntimeError("a bug"))
        letters.failure = lambda dead: None
        await asyncio.sleep(1)
        assert letters.offsets == list(range(10))

    virtual(main)


def test_nothing_is_loaded_again_by_an_owner_that_was_replaced_or_stops() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        await states.coordinator.close()
        states.coordinator.shards_changed()
        await asyncio.sleep(1)
        assert len(states.shards.opened) == 1

    virtual(main)
