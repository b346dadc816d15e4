"""Client quotas in a whole cluster: set at any proxy, decided by the controller, kept to by every proxy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages import (
    alter_client_quotas_request,
    create_topics_request,
    describe_client_quotas_request,
    incremental_alter_configs_request,
    produce_request,
)
from tests.simulation.clients import TOPIC, Client, Unhappy, create_topic, expect, now_ms
from tests.simulation.test_group_retention import calm_cluster

pytestmark = pytest.mark.simulation

_BROKER_RESOURCE = 4
QUOTA = 20_000.0
VALUE = bytes(10_000)


async def set_quota(client: Client, key: str, value: float) -> None:
    """Of all clients here; returns once this client's proxy knows it."""
    entity = [alter_client_quotas_request.EntityData(entity_type="user", entity_name="ANONYMOUS")]
    change = alter_client_quotas_request.OpData(key=key, value=value)
    entry = alter_client_quotas_request.EntryData(entity=entity, ops=[change])

    async def attempt() -> None:
        request = alter_client_quotas_request.AlterClientQuotasRequest(entries=[entry])
        answer = await client.request(ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
        expect(answer.entries[0].error_code)

    async def seen() -> None:
        request = describe_client_quotas_request.DescribeClientQuotasRequest()
        answer = await client.request(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request)
        if (key, value) not in [(one.key, one.value) for entry in answer.entries for one in entry.values]:
            raise Unhappy("this proxy does not know it yet")

    await client.until_done(attempt)
    await client.until_done(seen)


async def produce(client: Client) -> int:
    """The throttle time."""

    async def attempt() -> int:
        batch = encode_batch([Record(None, VALUE, timestamp_ms=now_ms())])
        data = produce_request.PartitionProduceData(index=0, records=bytes(batch))
        topic = produce_request.TopicProduceData(name=TOPIC, partition_data=[data])
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=5_000, topic_data=[topic])
        answer = await client.request(ApiKey.PRODUCE, 9, request)
        expect(answer.responses[0].partition_responses[0].error_code)
        return int(answer.throttle_time_ms)

    return await client.until_done(attempt)


async def set_scope(client: Client) -> None:
    async def attempt() -> None:
        config = incremental_alter_configs_request.AlterableConfig(
            name="bmq.client.quota.scope", config_operation=0, value="cluster"
        )
        resource = incremental_alter_configs_request.AlterConfigsResource(
            resource_type=_BROKER_RESOURCE, resource_name="", configs=[config]
        )
        request = incremental_alter_configs_request.IncrementalAlterConfigsRequest(resources=[resource])
        answer = await client.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request)
        expect(answer.responses[0].error_code)

    await client.until_done(attempt)


async def sent_within(client: Client, seconds: float) -> int:
    """Produces of one client, one after the other."""
    loop = asyncio.get_running_loop()
    until_s, count = loop.time() + seconds, 0
    while loop.time() < until_s:
        await produce(client)
        count += 1
    return count


def test_a_proxy_keeps_its_clients_to_a_quota_that_the_controller_wrote() -> None:
    cluster = calm_cluster()

    async def story(admin: Client) -> None:
        admin.patience_s = 60
        await create_topic(admin, 1, {})
        await set_quota(admin, "producer_byte_rate", QUOTA)
        admin.stay()  # each proxy has a bucket of its own
        told = [await produce(admin) for _ in range(24)]
        assert told[0] == 0 and told[-1] > 0
        before_s = asyncio.get_running_loop().time()
        count = await sent_within(admin, 60)
        measured = count * len(VALUE) / (asyncio.get_running_loop().time() - before_s)
        assert measured == pytest.approx(QUOTA, rel=0.1)

    cluster.scenario(story)


def test_with_the_option_one_proxy_alone_gives_out_the_quota_of_the_cluster() -> None:
    cluster = calm_cluster()

    async def story(admin: Client) -> None:
        admin.patience_s = 60
        await create_topic(admin, 1, {})
        await set_scope(admin)
        await set_quota(admin, "producer_byte_rate", QUOTA)
        admin.stay()  # each proxy has a bucket of its own
        await sent_within(admin, 20)
        before_s = asyncio.get_running_loop().time()
        count = await sent_within(admin, 60)
        measured = count * len(VALUE) / (asyncio.get_running_loop().time() - before_s)
        assert measured == pytest.approx(QUOTA, rel=0.15)

    cluster.scenario(story)


def test_a_client_of_a_proxy_is_refused_by_the_controller_after_too_many_partitions() -> None:
    cluster = calm_cluster()

    async def create(client: Client, name: str, partitions: int) -> Any:
        topic = create_topics_request.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = create_topics_request.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        return await client.request(ApiKey.CREATE_TOPICS, 7, request)

    async def story(admin: Client) -> None:
        admin.patience_s = 60
        await create_topic(admin, 1, {})
        await set_quota(admin, "controller_mutation_rate", 1.0)
        first = await create(admin, "first", 14)
        assert first.topics[0].error_code == ErrorCode.NONE
        second = await create(admin, "second", 1)
        assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 1_000 < second.throttle_time_ms <= 3_000
        began_s = asyncio.get_running_loop().time()
        third = await create(admin, "second", 1)  # the proxy muted the connection for that time
        assert third.topics[0].error_code == ErrorCode.NONE
        assert asyncio.get_running_loop().time() - began_s >= second.throttle_time_ms / 1_000 - 0.1

    cluster.scenario(story)
