"""What a member of a share group has locked is released when its session expires, however often and late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bmq.coordinator.share_state.partition import PartitionKey
from bmq.protocol.apis import ApiKey
from bmq.protocol.request_context import by_itself
from bmq.protocol.share_state_messages import (
    ANY_NODE,
    AcknowledgedBatch,
    AcknowledgePartition,
    AckType,
    AcquirePartition,
    NamedPartition,
    OffsetRange,
    ShareAcknowledgeRequest,
    ShareAcquireRequest,
    ShareReleaseRequest,
)
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_membership.test_share_api import AT_ONCE, Shares, T

pytestmark = pytest.mark.unit

SESSION_S = AT_ONCE.share.session_timeout_ms / 1000
LONG_LOCKS = {"share.record.lock.duration.ms": "60000", "share.auto.offset.reset": "earliest"}


async def passed(shares: Shares, seconds: float) -> None:
    """All clocks go on together, in steps of a second at most."""
    while seconds > 0:
        step_s = min(seconds, 1.0)
        await asyncio.sleep(step_s)
        for clock in (shares.cluster.clock, shares.states.clock):
            clock.advance(round(step_s * 1000))
        seconds -= step_s


async def acquired(shares: Shares, member_id: str, first: int, partition: int = 0, session: int = 1) -> int:
    """Acquire ten records at partitions of t; how many were given."""
    part = AcquirePartition(
        topic_id=T,
        partition=partition,
        records_max=10,
        batch_size=10,
        reset_offset=0,
        batches=[OffsetRange(first=first, last=first + 9)],
    )
    request = ShareAcquireRequest(
        group_id="g", member_id=member_id, node_id=1, node_epoch=1, session=session, partitions=[part]
    )
    (got,) = (await shares.states.coordinator.acquire(request)).partitions
    assert got.error_code == 0, got.error_message
    return sum(one.last - one.first + 1 for one in got.ranges)


async def accepted(shares: Shares, member_id: str, first: int) -> int:
    batch = AcknowledgedBatch(first=first, last=first + 9, types=[AckType.ACCEPT])
    part = AcknowledgePartition(topic_id=T, partition=0, batches=[batch])
    request = ShareAcknowledgeRequest(group_id="g", member_id=member_id, partitions=[part])
    (got,) = (await shares.states.coordinator.acknowledge(request)).partitions
    return int(got.error_code)


async def late_release(shares: Shares, member_id: str, removed_ms: int) -> None:
    request = ShareReleaseRequest(
        group_id="g",
        member_id=member_id,
        node_id=ANY_NODE,
        locked_before_ms=removed_ms,
        partitions=[NamedPartition(topic_id=T, partition=0)],
    )
    answer = await shares.states.coordinator.handle(ApiKey.SHARE_RELEASE, request, by_itself(ApiKey.SHARE_RELEASE))
    assert [one.error_code for one in answer.partitions] == [0]


def locks(shares: Shares, partition: int = 0) -> dict[str, int]:
    """Locked records by member."""
    key = PartitionKey("g", T, partition)
    (shard,) = (one for one in shares.states.coordinator.directory.ready.values() if key in one.partitions)
    window = shard.partitions[key].window
    found: dict[str, int] = {}
    for lock in () if window is None else window.holds.all_locks():
        member_id = lock.holder.member_id
        found[member_id] = found.get(member_id, 0) + lock.held
    return found


async def begun() -> Shares:
    """a and b are members, and both have all partitions of t: there are as many partitions as members have room for."""
    shares = Shares()
    shares.states.topics.group_configs["g"] = LONG_LOCKS
    shares.set_topic("t", T, 1)
    epoch = (await shares.beat("a", 0, "t")).member_epoch
    await shares.beat("b", 0, "t")
    await shares.beat("a", epoch)
    return shares


def test_a_member_that_leaves_may_still_accept_what_it_has_on_hand() -> None:
    """As in Kafka, where the end of its share sessions releases the rest."""

    async def main() -> None:
        shares = await begun()
        assert [await acquired(shares, "a", 0), await acquired(shares, "a", 10)] == [10, 10]
        await passed(shares, 1)
        assert (await shares.beat("a", -1)).member_epoch == -1
        await passed(shares, 1)
        assert await accepted(shares, "a", 0) == 0
        assert locks(shares) == {"a": 10}

    virtual(main)


def test_a_member_that_left_and_came_back_is_released_once_it_expires() -> None:
    async def main() -> None:
        shares = await begun()
        await shares.beat("a", -1)
        await shares.beat("a", 0, "t")
        assert await acquired(shares, "a", 0) == 10
        await passed(shares, SESSION_S + 1)
        assert locks(shares) == {}, "its lock had a quarter of a minute left"

    virtual(main)


def test_a_member_whose_session_expires_holds_nothing() -> None:
    async def main() -> None:
        shares = await begun()
        await passed(shares, SESSION_S - 10)
        assert [await acquired(shares, "a", 0), await acquired(shares, "b", 10)] == [10, 10]
        epoch = (await shares.beat("b", 0, "t")).member_epoch
        await passed(shares, 11)
        assert locks(shares) == {"b": 10}, "its lock had most of a minute left"
        assert (await shares.beat("b", epoch)).error_code == 0

    virtual(main)


def test_a_release_that_comes_late_or_twice_leaves_what_the_member_locked_since() -> None:
    async def main() -> None:
        shares = await begun()
        assert await acquired(shares, "a", 0) == 10
        await passed(shares, SESSION_S + 1)
        removed_ms = shares.states.clock.now_ms()
        assert locks(shares) == {}
        await passed(shares, 1)
        await shares.beat("a", 0, "t")
        assert await acquired(shares, "a", 0) == 10, "by the same share session as before"
        await late_release(shares, "a", removed_ms)
        await late_release(shares, "a", removed_ms)
        assert locks(shares) == {"a": 10}
        assert await accepted(shares, "a", 0) == 0

    virtual(main)


def test_a_release_that_was_lost_lets_the_locks_end_at_their_deadlines() -> None:
    async def main() -> None:
        shares = await begun()
        assert await acquired(shares, "a", 0) == 10
        await passed(shares, 1)
        shares.link.is_away = True
        await passed(shares, SESSION_S)
        assert locks(shares) == {"a": 10}
        await passed(shares, 60 - SESSION_S)
        assert locks(shares) == {}

    virtual(main)


def test_a_renewed_lock_counts_from_its_renewal() -> None:
    async def main() -> None:
        shares = await begun()
        assert await acquired(shares, "a", 0) == 10
        await passed(shares, 5)
        batch = AcknowledgedBatch(first=0, last=4, types=[AckType.RENEW])
        request = ShareAcknowledgeRequest(
            group_id="g", member_id="a", partitions=[AcknowledgePartition(topic_id=T, partition=0, batches=[batch])]
        )
        await shares.states.coordinator.acknowledge(request)
        await late_release(shares, "a", shares.states.clock.now_ms() - 2_000)
        assert locks(shares) == {"a": 5}
        await passed(shares, 1)
        await late_release(shares, "a", shares.states.clock.now_ms())
        assert locks(shares) == {}

    virtual(main)


def test_a_new_owner_of_the_group_releases_nothing_that_it_only_replays() -> None:
    async def main() -> None:
        shares = await begun()
        await passed(shares, SESSION_S + 1)
        assert await acquired(shares, "a", 0) == 10, "fetching needs no membership"
        heir = Shares(shares)
        asked: list[Any] = heir.link.calls
        assert (await heir.beat("b", 0, "t")).error_code == 0
        await passed(heir, 1)
        assert "release" not in asked and locks(heir) == {"a": 10}

    virtual(main)
