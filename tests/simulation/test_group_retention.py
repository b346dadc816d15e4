"""A whole cluster whose owners ask coordinators on other nodes: retention and quotas by a group's commits, failovers too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    incremental_alter_configs_request,
    offset_commit_request,
    produce_request,
)
from tests.fakes.store import Faults
from tests.simulation.clients import EARLIEST, TOPIC, Client, Unhappy, create_topic, expect, listed_offset, now_ms
from tests.simulation.cluster import Cluster
from tests.simulation.cluster_kind import ClusterKind
from tests.simulation.fault_rates import KINDS, FaultRates

pytestmark = pytest.mark.simulation

GROUP = "slow"
VALUE = bytes(600_000)
"""Two do not fit into the smallest segment there may be."""
_SET = 0
_TOPIC_RESOURCE = 2


class CalmCluster(Cluster):
    """Each role in processes of its own, and nothing fails by itself."""

    def _kind(self) -> ClusterKind:
        roles = {1: "proxy", 2: "proxy", 3: "broker,coordinator", 4: "broker,coordinator", 5: "controller"}
        return replace(super()._kind(), roles=roles, faults=Faults(request_s=(0.0002, 0.002)), min_insync_replicas=1)

    def _server_settings(self) -> dict[str, Any]:
        given = super()._server_settings()
        broker = {**given["broker"], "retention_check_interval_ms": 1_000, "append_bytes_max": 4_000_000}
        return {**given, "broker": broker}

    def scenario(self, work: Callable[[Client], Awaitable[None]]) -> None:
        async def run() -> None:
            for node_id in self.kind.roles:
                self.start_node(node_id)
            await work(self.client("admin"))
            self.check_now()

        try:
            self.loop.run_until_complete(run())
        finally:
            self.loop.discard()


def calm_cluster() -> CalmCluster:
    return CalmCluster(1, FaultRates(dict.fromkeys(KINDS, 0.0)))


async def produce(client: Client) -> ErrorCode:
    """One record by itself; retried where a client would until it is taken or a quota refuses it."""

    async def attempt() -> ErrorCode:
        batch = encode_batch([Record(None, VALUE, timestamp_ms=now_ms())])
        data = produce_request.PartitionProduceData(index=0, records=bytes(batch))
        topic = produce_request.TopicProduceData(name=TOPIC, partition_data=[data])
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
        (result,) = (await client.request(ApiKey.PRODUCE, 9, request)).responses[0].partition_responses
        if "left to consume" in (result.error_message or ""):
            return ErrorCode(result.error_code)
        expect(result.error_code)
        return ErrorCode.NONE

    return await client.until_done(attempt)


async def commit(client: Client, offset: int) -> None:
    async def attempt() -> None:
        part = offset_commit_request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = offset_commit_request.OffsetCommitRequestTopic(name=TOPIC, partitions=[part])
        request = offset_commit_request.OffsetCommitRequest(group_id=GROUP, topics=[topic])
        answer = await client.request(ApiKey.OFFSET_COMMIT, 7, request)
        code = answer.topics[0].partitions[0].error_code
        if code == ErrorCode.NOT_COORDINATOR:
            raise Unhappy("the offsets topic is being made")
        expect(code)

    await client.until_done(attempt)


async def earliest(client: Client) -> int:
    return await client.until_done(lambda: listed_offset(client, 0, EARLIEST))


async def alter(client: Client, name: str, value: str) -> None:
    async def attempt() -> None:
        config = incremental_alter_configs_request.AlterableConfig(name=name, config_operation=_SET, value=value)
        resource = incremental_alter_configs_request.AlterConfigsResource(
            resource_type=_TOPIC_RESOURCE, resource_name=TOPIC, configs=[config]
        )
        request = incremental_alter_configs_request.IncrementalAlterConfigsRequest(resources=[resource])
        answer = await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        expect(answer.responses[0].error_code)

    await client.until_done(attempt)


def test_retention_waits_for_a_group_of_another_node() -> None:
    cluster = calm_cluster()

    async def story(admin: Client) -> None:
        configs = {"segment.bytes": "1048576", "retention.bytes": "1", "bmq.retention.groups": GROUP}
        await create_topic(admin, 1, configs)
        for _ in range(6):
            assert await produce(admin) is ErrorCode.NONE
        await asyncio.sleep(3)
        assert await earliest(admin) == 0, "there is not even an offsets topic yet"
        await commit(admin, 2)
        await asyncio.sleep(3)
        assert await earliest(admin) == 2
        cluster.nodes[3].process.kill()  # an owner, a coordinator, or both: the other one goes on
        await asyncio.sleep(10)
        await commit(admin, 4)
        await asyncio.sleep(5)
        assert await earliest(admin) == 4
        await alter(admin, "bmq.retention.groups", "")
        await asyncio.sleep(3)
        assert await earliest(admin) == 5, "the open segment stays"

    cluster.scenario(story)


def test_a_quota_holds_producers_until_the_group_has_caught_up() -> None:
    cluster = calm_cluster()

    async def story(admin: Client) -> None:
        await create_topic(admin, 1, {"segment.bytes": "1048576", "bmq.retention.groups": GROUP})
        for _ in range(3):
            assert await produce(admin) is ErrorCode.NONE
        await alter(admin, "bmq.backlog.quota.bytes", "1000000")
        await asyncio.sleep(1.5)
        assert await produce(admin) is ErrorCode.NOT_ENOUGH_REPLICAS
        await commit(admin, 3)
        await asyncio.sleep(1.0)
        assert await produce(admin) is ErrorCode.NONE
        await alter(admin, "bmq.backlog.quota.policy", "producer_exception")
        await produce(admin)
        await asyncio.sleep(1.5)
        assert await produce(admin) is ErrorCode.POLICY_VIOLATION
        await alter(admin, "bmq.backlog.quota.policy", "consumer_backlog_eviction")
        await asyncio.sleep(1.5)
        assert await produce(admin) is ErrorCode.NONE
        await asyncio.sleep(1.5)
        assert await earliest(admin) > 3, "dropped though it was not consumed"

    cluster.scenario(story)
