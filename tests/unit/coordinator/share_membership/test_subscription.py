"""Exclusive and failover subscriptions of share groups: who may join, who has the partitions, who may acquire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest

from bmq.coordinator.share_membership.activation import Activation
from bmq.coordinator.share_membership.assignor import AssignedMember
from bmq.coordinator.share_membership.subscription import marked_hash, targets_of
from bmq.coordinator.subscription_type import SubscriptionType, subscription_of
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.request_context import by_itself
from bmq.protocol.share_state_messages import (
    AcknowledgedBatch,
    AcknowledgePartition,
    AckType,
    AcquirePartition,
    ActivePartition,
    OffsetRange,
    ShareAcknowledgeRequest,
    ShareAcquireRequest,
    ShareActivateRequest,
)
from tests.support.gate_share import few_in_gate
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_membership.test_share_api import Shares, T, U, assigned
from tests.unit.coordinator.share_state.states import States

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

CONFIG = "bmq.share.subscription.type"
NONE: dict[UUID, frozenset[int]] = {}


def set_type(shares: Shares, word: str) -> None:
    """As the image of every node has it from now on."""
    for topics in (shares.cluster.topics, shares.states.topics):
        topics.group_configs["g"] = {CONFIG: word, "share.auto.offset.reset": "earliest"}


async def acquire(shares: Shares, member_id: str, partition: int = 0, records_max: int = 5) -> list[int] | ErrorCode:
    """Offsets, or the error."""
    part = AcquirePartition(
        topic_id=T,
        partition=partition,
        records_max=records_max,
        batch_size=5,
        reset_offset=0,
        batches=[OffsetRange(first=first, last=first + 4) for first in range(0, 100, 5)],
    )
    request = ShareAcquireRequest(
        group_id="g", member_id=member_id, node_id=1, node_epoch=1, session=1, partitions=[part]
    )
    answer = await shares.states.coordinator.handle(ApiKey.SHARE_ACQUIRE, request, by_itself(ApiKey.SHARE_ACQUIRE))
    (one,) = answer.partitions
    if one.error_code:
        return ErrorCode(one.error_code)
    return [offset for given in one.ranges for offset in range(given.first, given.last + 1)]


async def accept(shares: Shares, member_id: str, first: int, last: int) -> int:
    batch = AcknowledgedBatch(first=first, last=last, types=[AckType.ACCEPT])
    part = AcknowledgePartition(topic_id=T, partition=0, batches=[batch])
    request = ShareAcknowledgeRequest(group_id="g", member_id=member_id, partitions=[part])
    answer = await shares.states.coordinator.handle(
        ApiKey.SHARE_ACKNOWLEDGE_STATE, request, by_itself(ApiKey.SHARE_ACKNOWLEDGE_STATE)
    )
    return int(answer.partitions[0].error_code)


def told(word: str, story: Callable[[Shares], Awaitable[None]]) -> None:
    async def main() -> None:
        shares = Shares()
        set_type(shares, word)
        await story(shares)

    virtual(main)


ACTIVE = ErrorCode.FENCED_MEMBER_EPOCH


def test_a_second_member_of_an_exclusive_group_is_refused_with_a_sentence() -> None:
    async def story(shares: Shares) -> None:
        assert assigned(await shares.beat("a", 0, "t")) == [0, 1, 2, 3]
        for epoch in (0, 3):
            refused = await shares.beat("b", epoch, "t")
            assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            assert refused.error_message == "Share group g is exclusive, and member a has it."
        assert assigned(await shares.beat("a", 0, "t")) == [0, 1, 2, 3], "it may rejoin"
        assert (await shares.beat("a", -1)).error_code == 0
        assert assigned(await shares.beat("b", 0, "t")) == [0, 1, 2, 3]

    told("exclusive", story)


def test_the_next_oldest_takes_over_when_the_oldest_leaves() -> None:
    async def story(shares: Shares) -> None:
        joined = {name: await shares.beat(name, 0, "t") for name in "cab"}
        assert {name: assigned(answer) for name, answer in joined.items()} == {"c": [0, 1, 2, 3], "a": [], "b": []}
        assert await acquire(shares, "c") == [0, 1, 2, 3, 4]
        assert await acquire(shares, "a") == ACTIVE
        epoch = joined["b"].member_epoch
        await shares.beat("c", -1)
        after = await shares.beat("b", epoch)
        assert not assigned(after)
        assert assigned(await shares.beat("a", joined["a"].member_epoch)) == [0, 1, 2, 3]
        assert await acquire(shares, "a", records_max=1) == [5, 6, 7, 8, 9], "what c has stays locked"
        assert await acquire(shares, "c") == ACTIVE
        assert await acquire(shares, "b") == ACTIVE
        assert await accept(shares, "c", 0, 4) == 0, "the locks of the former member run on"

    told("failover", story)


def test_the_oldest_stays_the_oldest_after_a_failover_of_the_group() -> None:
    async def story(shares: Shares) -> None:
        answers = {name: await shares.beat(name, 0, "t") for name in "zyx"}
        heir = Shares(shares)
        assert (await heir.beat("x", answers["x"].member_epoch)).error_code == 0
        assert (await heir.beat("z", -1)).error_code == 0
        for _ in range(2):
            after = await heir.beat("x", 0, "t")
        assert assigned(after) == []
        assert assigned(await heir.beat("y", 0, "t")) == [0, 1, 2, 3]
        assert await acquire(heir, "y") == [0, 1, 2, 3, 4]
        assert await acquire(heir, "z") == ACTIVE

    told("failover", story)


def test_another_type_counts_from_the_next_heartbeat_on() -> None:
    async def story(shares: Shares) -> None:
        a, b = await shares.beat("a", 0, "t"), await shares.beat("b", 0, "t")
        a = await shares.beat("a", a.member_epoch)
        assert len(assigned(a) or ()) == len(assigned(b) or ()) == 2
        number = (assigned(b) or [0])[0]
        assert await acquire(shares, "b", number) == [0, 1, 2, 3, 4]
        for word in ("failover", "exclusive"):
            set_type(shares, word)
            assert await acquire(shares, "b", number) == ACTIVE
            b = await shares.beat("b", 0, "t")
            assert b.error_code == 0 and assigned(b) == [], "who is there stays"
            assert assigned(await shares.beat("a", 0, "t")) == [0, 1, 2, 3]
            assert await acquire(shares, "a", number)
        assert (await shares.beat("c", 0, "t")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        set_type(shares, "shared")
        assert await acquire(shares, "b", number)
        assert (await shares.beat("c", 0, "t")).error_code == 0
        parts = [assigned(await shares.beat(name, 0, "t")) or [] for name in "abc"]
        assert {one for part in parts for one in part} == {0, 1, 2, 3} and all(parts)

    told("shared", story)


def test_a_shard_that_was_away_is_told_with_the_next_heartbeat() -> None:
    async def story(shares: Shares) -> None:
        joined = await shares.beat("a", 0, "t")
        shares.link.calls.clear()
        assert assigned(await shares.beat("b", 0, "t")) == []
        assert shares.link.calls == ["activate"]
        await shares.beat("b", 0, "t")
        assert shares.link.calls == ["activate"], "all shards know it"
        shares.link.is_away = True
        await shares.beat("a", -1)
        assert assigned(await shares.beat("b", 0, "t")) == [0, 1, 2, 3]
        assert await acquire(shares, "b") == ACTIVE, "its shard still knows the former member"
        shares.link.is_away = False
        await shares.beat("b", 0, "t")
        assert await acquire(shares, "b") == [0, 1, 2, 3, 4]
        assert (await shares.beat("a", joined.member_epoch)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    told("failover", story)


def test_the_active_member_outlives_the_owner_of_the_shard_and_an_older_one_is_refused() -> None:
    async def activate(states: Any, member_id: str, epoch: int) -> int:
        part = ActivePartition(topic_id=T, partition=0, member_id=member_id)
        request = ShareActivateRequest(group_id="g", epoch=epoch, partitions=[part])
        answer = await states.coordinator.handle(ApiKey.SHARE_ACTIVATE, request, by_itself(ApiKey.SHARE_ACTIVATE))
        return int(answer.partitions[0].error_code)

    async def story(shares: Shares) -> None:
        assert await activate(shares.states, "x", 9) == ErrorCode.INVALID_REQUEST, "it has no state yet"
        await shares.beat("a", 0, "t")
        assert await activate(shares.states, "x", 1) == ErrorCode.FENCED_STATE_EPOCH
        assert await activate(shares.states, "x", 70) == 0
        shares.states = shares.states.take_over()
        shares.link.states = shares.states.coordinator
        assert await acquire(shares, "a") == ACTIVE
        assert await acquire(shares, "x") == [0, 1, 2, 3, 4]
        assert await activate(shares.states, "a", 69) == ErrorCode.FENCED_STATE_EPOCH
        await shares.beat("a", -1)
        await shares.alter(50, 0)
        assert await acquire(shares, "x") == [50, 51, 52, 53, 54], "a reset of the offset leaves it"

    told("failover", story)


def test_a_snapshot_of_the_shard_keeps_the_active_member() -> None:
    async def story(shares: Shares) -> None:
        shares.states = States(shares.states, snapshot_records_max=4)
        shares.link.states = shares.states.coordinator
        await shares.beat("a", 0, "t")
        await shares.beat("b", 0, "t")
        for _ in range(6):
            assert await acquire(shares, "a", records_max=1)
        await asyncio.sleep(1)
        key = next(key for key in shares.states.coordinator.directory.ready if shares.states.shards.logs[key].snapshots)
        assert shares.states.shards.logs[key].snapshots
        heir = shares.states.take_over()
        shares.states, shares.link.states = heir, heir.coordinator
        assert await acquire(shares, "b") == ACTIVE
        assert await acquire(shares, "a")
        loaded = [
            one.active for shard in heir.coordinator.directory.ready.values() for one in shard.partitions.values()
        ]
        assert loaded and {one.member_id for one in loaded} == {"a"}

    told("failover", story)


def test_nothing_is_acquired_while_another_member_becomes_active() -> None:
    async def story(shares: Shares) -> None:
        await shares.beat("a", 0, "t")
        await shares.beat("b", 0, "t")
        assert await acquire(shares, "a") == [0, 1, 2, 3, 4]
        await shares.beat("a", -1)
        for log in shares.states.shards.logs.values():
            log.is_acknowledging = False
        taking_over = asyncio.create_task(shares.beat("b", 0, "t"))
        await asyncio.sleep(0.1)
        late = asyncio.create_task(acquire(shares, "a"))
        await asyncio.sleep(0.1)
        assert not taking_over.done() and not late.done()
        for log in shares.states.shards.logs.values():
            log.is_acknowledging = True
            log.acknowledge()
        assert assigned(await taking_over) == [0, 1, 2, 3]
        assert await late == ACTIVE

    told("failover", story)


def test_each_topic_goes_to_the_oldest_of_its_subscribers() -> None:
    members = [AssignedMember("b", frozenset((T,)), NONE), AssignedMember("a", frozenset((T, U)), NONE)]
    partitions = {T: [0, 1], U: [0], UUID(int=9): [0]}
    for kind in (SubscriptionType.FAILOVER, SubscriptionType.EXCLUSIVE):
        assert targets_of(kind, members, partitions) == {"b": {T: {0, 1}}, "a": {U: {0}}}
    assert targets_of(SubscriptionType.FAILOVER, [], partitions) == {}


def test_words_and_marks_of_types() -> None:
    assert subscription_of({}) is SubscriptionType.SHARED
    assert subscription_of({CONFIG: "of a later release"}) is SubscriptionType.SHARED
    assert subscription_of({CONFIG: "exclusive"}) is SubscriptionType.EXCLUSIVE
    assert (
        subscription_of({CONFIG: " key_shared "}) is SubscriptionType.KEY_SHARED
    )  # configs are kept as they were sent
    for value in (0, -(2**63), 2**63 - 1):
        marked = [marked_hash(value, kind) for kind in SubscriptionType]
        assert marked[0] == value and len(set(marked)) == 4
        assert all(-(2**63) <= one < 2**63 for one in marked)


def test_places_are_told_once_at_each_epoch_and_again_when_that_failed() -> None:
    activation = Activation()
    targets = {"a": {T: frozenset((0, 1))}}
    assert activation.begin(3, targets) == {(T, 0): "a", (T, 1): "a"}
    assert activation.begin(3, targets) == {}
    activation.failed(3, [(T, 1)])
    assert activation.begin(3, targets) == {(T, 1): "a"}
    activation.failed(2, [(T, 0)])
    assert activation.begin(3, targets) == {}
    assert activation.begin(4, targets) == {(T, 0): "a", (T, 1): "a"}


@few_in_gate("seed", range(15), every=5, others=in_campaign)
def test_no_second_member_acquires_whatever_moves(seed: int) -> None:
    """Members join, leave and fetch even without a partition; groups and shards of the state move, and are away.

    A member that is there acquires only if no older one is there. One that has left acquires only until a member that is
    there was answered while the shards could be reached.
    """

    async def main() -> None:
        random = Random(seed)
        shares = Shares()
        set_type(shares, "failover")
        epochs: dict[str, int] = {}  # of members that are there, the oldest first
        is_settled = False
        acquired = handovers = 0
        last = ""
        for _ in range(150):
            member = random.choice("abc")
            match random.randrange(10):
                case 0 | 1 | 2:
                    answer = await shares.beat(member, epochs.get(member, 0), *(() if member in epochs else ("t",)))
                    assert answer.error_code == 0, answer.error_message
                    epochs[member] = answer.member_epoch
                    is_settled = not shares.link.is_away
                case 3 if member in epochs:
                    assert (await shares.beat(member, -1)).error_code == 0
                    del epochs[member]
                    is_settled = False
                case 4:
                    shares = Shares(shares)
                case 5:
                    shares.states = shares.states.take_over()
                    shares.link.states = shares.states.coordinator
                case 6:
                    shares.link.is_away = random.random() < 0.3
                case _:
                    got = await acquire(shares, member, records_max=1)
                    if isinstance(got, ErrorCode):
                        assert got in (ACTIVE, ErrorCode.INVALID_REQUEST)
                        continue
                    acquired += 1
                    handovers += member != last
                    last = member
                    if is_settled:
                        assert member == next(iter(epochs)), (member, epochs)
        assert acquired

    virtual(main)
