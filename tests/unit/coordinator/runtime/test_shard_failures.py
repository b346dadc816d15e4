"""Rule 23 for a shard: what raises half-way costs the state in memory, never an answer that is not true, and nobody hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from bmq.coordinator.classic.group import Group
from bmq.coordinator.group_shard import GroupShard
from bmq.coordinator.offsets.offsets import Offsets
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.coordinator.cluster import Cluster, request_context
from tests.unit.proxy.harness import until

pytestmark = pytest.mark.unit


def failing_once(real: Callable[..., Any], *, is_before: bool) -> Callable[..., Any]:
    left = [MemoryError("no memory for one turn")]

    def call(*args: Any, **options: Any) -> Any:
        error = left.pop() if left else None
        if error is not None and is_before:
            raise error
        result = real(*args, **options)
        if error is not None:
            raise error
        return result

    return call


def the_shard(cluster: Cluster, group_id: str = "g") -> GroupShard:
    shard = cluster.coordinator.directory.find(group_id)
    assert shard is not None
    return shard


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (Offsets, "replay"),
        (Group, "replay"),
        (Group, "answer_replaced_member"),
        (GroupShard, "_schedule"),
        (GroupShard, "_persist"),
    ],
    ids=lambda part: getattr(part, "__name__", part),
)
async def test_a_shard_that_failed_is_loaded_again(
    owner: type, name: str, is_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(shard_count=1)
    assert await cluster.commit("g", {("t", 0): 41}) == {("t", 0): 0}
    before = the_shard(cluster)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing_once(getattr(owner, name), is_before=is_before))
        async with asyncio.timeout(10):
            outcomes = await asyncio.gather(
                cluster.commit("g", {("t", 0): 42}), cluster.stable("h"), return_exceptions=True
            )
        commit = outcomes[0]
        await asyncio.sleep(0)
    assert before.is_lost
    async with asyncio.timeout(10):
        found = await cluster.fetch_all("g")
        assert found == ({("t", 0): 42} if commit == {("t", 0): 0} else {("t", 0): found["t", 0]})
        assert found["t", 0] in (41, 42)
        assert await cluster.commit("g", {("t", 0): 43}) == {("t", 0): 0}
        await cluster.stable("i")
    assert the_shard(cluster) is not before
    await cluster.coordinator.close()


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", ["replay_pending", "replay_end"])
async def test_a_shard_that_failed_over_a_transaction_is_loaded_again(
    name: str, is_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(shard_count=1)
    assert await cluster.commit("g", {("t", 0): 41}) == {("t", 0): 0}
    before = the_shard(cluster)
    monkeypatch.setattr(Offsets, name, failing_once(getattr(Offsets, name), is_before=is_before))
    told = (await cluster.commit_in_transaction("g", {("t", 0): 42}))["t", 0]
    assert told == (ErrorCode.NOT_COORDINATOR if name == "replay_pending" else ErrorCode.NONE)
    if name == "replay_end":
        with pytest.raises(KafkaError) as caught:
            await cluster.end("g")
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert before.is_lost
    await cluster.end("g")
    assert await cluster.fetch_all("g") == {("t", 0): 42}, "it was in the log"
    await cluster.coordinator.close()


async def test_a_failed_shard_acknowledges_nothing_that_its_successor_does_not_know() -> None:
    """The partition is still ours, its log goes on, and what was on its way for the lost state becomes durable."""
    cluster = Cluster(shard_count=1)
    await cluster.commit("g", {("t", 0): 41})
    log = cluster.log_of("g")
    log.is_acknowledging = False
    late = asyncio.create_task(cluster.commit("g", {("t", 0): 42}))
    await until(lambda: log.pending_count > 0)
    the_shard(cluster).fail(MemoryError())
    await cluster.fetch_all("g")  # loads the successor
    log.is_acknowledging = True
    log.acknowledge()
    async with asyncio.timeout(10):
        assert (await late)["t", 0] != ErrorCode.NONE
        codes = {(await cluster.commit("g", {("u", 0): 1}))["u", 0] for _ in range(2)}
        assert ErrorCode.NONE in codes
        assert await cluster.fetch_all("g") == {("t", 0): 42, ("u", 0): 1}, "what is durable is known"
    await cluster.coordinator.close()


async def test_a_member_whose_name_has_no_room_is_its_groups_trouble_alone() -> None:
    cluster = Cluster(shard_count=1)
    await cluster.stable("good")
    before = the_shard(cluster)
    async with asyncio.timeout(10):
        joined = await cluster.join("bad", group_instance_id="i" * 40_000, version=5)
        synced = await cluster.coordinator.classic.sync_group(
            SyncGroupRequest(
                group_id="bad",
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                assignments=[SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")],
            ),
            request_context(3),
        )
        assert synced.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        assert await cluster.commit("simple", {("t", 0): 41}) == {("t", 0): 0}
    assert not before.is_lost
    assert the_shard(cluster) is before
    await cluster.coordinator.close()


async def test_one_groups_timer_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard is loaded again by whoever asks next; until then members hear where to look."""
    cluster = Cluster(shard_count=1)
    await cluster.stable("g")
    before = the_shard(cluster)
    monkeypatch.setattr(Group, "tick", failing_once(Group.tick, is_before=False))
    before._wake()
    before._timer_at_ms = 0.0
    for group in before.groups.values():
        before._wake_ups.schedule(group.group_id, 0.0)
    before._wake()
    assert before.is_lost and not before.groups
    async with asyncio.timeout(10):
        await cluster.stable("h")
    await cluster.coordinator.close()


async def test_expiry_goes_on_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(shard_count=1)
    assert await cluster.commit("g", {("t", 0): 41}) == {("t", 0): 0}
    shard = the_shard(cluster)
    monkeypatch.setattr(Offsets, "expire", failing_once(Offsets.expire, is_before=True))
    shard._expire(["g"])
    assert shard._expiry is not None and not shard.is_lost
    await cluster.coordinator.close()


async def test_a_shard_over_a_log_that_is_offline_is_given_up() -> None:
    """It would refuse every commit for ever, also after the partition was started again."""
    cluster = Cluster(shard_count=1)
    assert await cluster.commit("g", {("t", 0): 41}) == {("t", 0): 0}
    shard = the_shard(cluster)
    log: Any = shard.state_log.log.log  # type: ignore[attr-defined]
    log.refuse_with = ErrorCode.KAFKA_STORAGE_ERROR
    assert await cluster.commit("g", {("t", 0): 42}) == {("t", 0): ErrorCode.NOT_COORDINATOR}
    await asyncio.sleep(0.01)
    assert not shard.is_lost, "a full store says so too, and then it is only refused"
    log.is_owner = False
    assert await cluster.commit("g", {("t", 0): 42}) == {("t", 0): ErrorCode.NOT_COORDINATOR}
    await until(lambda: shard.is_lost)
    log.refuse_with, log.is_owner = None, True
    assert await cluster.commit("g", {("t", 0): 43}) == {("t", 0): 0}
    await cluster.coordinator.close()
