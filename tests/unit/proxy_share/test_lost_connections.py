"""A connection that ends at any moment of an acquisition in this process leaves no record locked."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from bmq.coordinator.share_state.partition import PartitionKey
from bmq.protocol.share_state_messages import InitializePartition, ShareInitializeRequest, state_key
from bmq.proxy.share.consumers import ShareConsumers
from bmq.proxy.share.requests import ShareRequests
from tests.fakes.partition_log import FakePartitionLog
from tests.unit.coordinator.share_state.states import States
from tests.unit.proxy_fetch.cluster import TOPIC_ID
from tests.unit.proxy_share.share_client import Member, ShareCluster, acquired_of, turns

pytestmark = pytest.mark.unit

NEVER_MS = 1_000_000


class OverShards(ShareCluster):
    """Over the shards that servers have, in memory; partition 0 has state."""

    def __init__(self) -> None:
        super().__init__(1)
        self.shards = States()
        self.shards.topics.group_configs["g"] = {}
        self.consumers = ShareConsumers(self.fetch_cluster.fetcher.shared, self.shards.coordinator)
        self.requests = ShareRequests(self.consumers)

    async def initialize(self) -> None:
        part = InitializePartition(topic_id=TOPIC_ID, partition=0, start_offset=0)
        request = ShareInitializeRequest(group_id="g", state_epoch=1, partitions=[part])
        (answer,) = (await self.shards.coordinator.initialize(request)).partitions
        assert not answer.error_code

    @property
    def log(self) -> FakePartitionLog:
        """Of the shard."""
        return self.shards.shards.logs[self.shards.coordinator.directory.number_of(state_key("g", TOPIC_ID, 0))]

    @property
    def locked(self) -> int:
        key = PartitionKey("g", TOPIC_ID, 0)
        (shard,) = (one for one in self.shards.coordinator.directory.ready.values() if key in one.partitions)
        window = shard.partitions[key].window
        assert window is not None
        return window.locked


@pytest.mark.parametrize("turn", range(12))
async def test_no_record_stays_locked(turn: int) -> None:
    cluster = OverShards()
    await cluster.initialize()
    member = Member(cluster)
    await member.fetch()
    cluster.fetch_cluster.produce(0)
    fetching = asyncio.ensure_future(member.fetch([], max_wait_ms=NEVER_MS))
    for _ in range(turn):
        await asyncio.sleep(0)
    fetching.cancel()  # as the connection does
    member.lose()
    with suppress(asyncio.CancelledError):
        await fetching
    await turns()
    assert cluster.locked == 0
    assert [one[:2] for one in acquired_of(await Member(cluster, "other").fetch())] == [(0, 0)]
    await cluster.close()


async def test_a_release_waits_for_the_append_of_a_cancelled_acquisition() -> None:
    cluster = OverShards()
    await cluster.initialize()
    member = Member(cluster)
    await member.fetch()
    cluster.log.is_acknowledging = False
    cluster.fetch_cluster.produce(0)
    fetching = asyncio.ensure_future(member.fetch([], max_wait_ms=NEVER_MS))
    await turns()
    fetching.cancel()
    member.lose()
    await turns()
    assert cluster.locked == 1, "nobody knows yet whether the delivery is counted"
    cluster.log.is_acknowledging = True
    cluster.log.acknowledge()
    await turns()
    assert cluster.locked == 0
    assert acquired_of(await Member(cluster, "other").fetch()) == [(0, 0, 2)]
    await cluster.close()
