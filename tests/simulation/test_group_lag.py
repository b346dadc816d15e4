"""The lag of a group whose topic is on other nodes than its coordinator, and what nodes say of their health."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from bmq.admin.health import Stage
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import find_coordinator_request, offset_commit_request, produce_request
from bmq.server.node import NodeServer
from tests.simulation.clients import TOPIC, Client, Unhappy, create_topic, expect, now_ms
from tests.simulation.test_group_retention import CalmCluster, calm_cluster

pytestmark = pytest.mark.simulation

PARTITIONS = 8
BROKERS = (3, 4)
GROUPS = [f"group-{number}" for number in range(8)]
"""So many that each broker coordinates some, for topics of both."""


async def produce(client: Client, partition: int, count: int) -> None:
    async def attempt() -> None:
        records = [Record(None, b"value", timestamp_ms=now_ms()) for _ in range(count)]
        data = produce_request.PartitionProduceData(index=partition, records=bytes(encode_batch(records)))
        topic = produce_request.TopicProduceData(name=TOPIC, partition_data=[data])
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
        expect((await client.request(ApiKey.PRODUCE, 9, request)).responses[0].partition_responses[0].error_code)

    await client.until_done(attempt)


async def commit(client: Client, group: str, offset: int) -> None:
    async def attempt() -> None:
        parts = [
            offset_commit_request.OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index in range(PARTITIONS)
        ]
        topic = offset_commit_request.OffsetCommitRequestTopic(name=TOPIC, partitions=parts)
        request = offset_commit_request.OffsetCommitRequest(group_id=group, topics=[topic])
        code = (await client.request(ApiKey.OFFSET_COMMIT, 7, request)).topics[0].partitions[0].error_code
        if code == ErrorCode.NOT_COORDINATOR:  # asking for it makes the offsets topic
            await client.request(ApiKey.FIND_COORDINATOR, 3, find_coordinator_request.FindCoordinatorRequest(key=group))
            raise Unhappy("the offsets topic is being made")
        expect(code)

    await client.until_done(attempt)


def server_of(cluster: CalmCluster, node_id: int) -> NodeServer:
    server = cluster.nodes[node_id].server
    assert server is not None
    return server


async def scraped(server: NodeServer) -> CollectorRegistry:
    registry = CollectorRegistry()
    server.register_metrics(registry)
    await server.refresh_metrics()
    return registry


def test_each_group_is_at_one_node_with_its_lag_in_topics_of_all_nodes() -> None:
    cluster = calm_cluster()

    async def story(admin: Client) -> None:
        await create_topic(admin, PARTITIONS, {})
        for partition in range(PARTITIONS):
            await produce(admin, partition, 5)
        for number, group in enumerate(GROUPS):
            await commit(admin, group, number % 5)
        found = {node_id: await scraped(server_of(cluster, node_id)) for node_id in BROKERS}
        at: set[int] = set()
        for number, group in enumerate(GROUPS):
            labels = {"group": group, "topic": TOPIC}
            lags = {one: found[one].get_sample_value("bmq_group_lag_records", labels) for one in BROKERS}
            (here,) = (one for one, lag in lags.items() if lag is not None)
            assert lags[here] == PARTITIONS * (5 - number % 5), group
            at.add(here)
        assert at == set(BROKERS), "each broker coordinates groups"
        for registry in found.values():
            assert registry.get_sample_value("bmq_group_lag_unknown_offsets") == 0
        records = [found[one].get_sample_value("bmq_topic_in_records_total", {"topic": TOPIC}) for one in BROKERS]
        assert all(records), "each broker owns partitions"
        assert sum(one or 0 for one in records) == PARTITIONS * 5

    cluster.scenario(story)


def test_a_node_says_how_far_it_is_and_whom_it_cannot_reach() -> None:
    cluster = calm_cluster()

    async def story(admin: Client) -> None:
        await create_topic(admin, 2, {})
        await produce(admin, 0, 1)
        health = server_of(cluster, 1).health()
        assert (health.stage, health.is_fenced, health.is_controller_silent) == (Stage.SERVING, False, False)
        cluster.nodes[5].process.kill()  # the only controller
        await asyncio.sleep(30)
        assert server_of(cluster, 1).health().is_controller_silent
        stopping = asyncio.ensure_future(server_of(cluster, 2).stop())
        await asyncio.sleep(0)
        assert server_of(cluster, 2).health().stage is Stage.STOPPING
        await stopping

    cluster.scenario(story)
