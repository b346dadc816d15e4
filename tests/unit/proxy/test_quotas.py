"""Clients with quotas at a whole listener, on virtual time: what they are told, and when their next requests are begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from bmq.proxy.fetch_settings import FetchSettings
from bmq.proxy.fetcher import Fetcher
from bmq.proxy.limits import ProxyLimits
from bmq.security.quotas.entities import Entity
from tests.fakes.store import FakeStore
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.unit.proxy.harness import Client, Proxy, batch, produce_request, start_proxy

pytestmark = pytest.mark.unit

USER: Entity = (("user", "ANONYMOUS"),)
ANY_CLIENT: Entity = (("client-id", None),)
PRODUCE, CONSUME, CONNECT = "producer_byte_rate", "consumer_byte_rate", "connection_creation_rate"
VALUE = bytes(10_000)
LIMITS = ProxyLimits(connections_max_idle_ms=15_000)


def at_a_proxy(story: Callable[[Proxy], Awaitable[None]]) -> None:
    """Run a story on virtual time; what nobody heard of fails the test."""
    loop = VirtualTimeLoop(time_limit_s=1_000)
    Network(loop, Random(1))

    async def run() -> None:
        proxy = await start_proxy(LIMITS, partition_count=1)
        proxy.services.fetcher = Fetcher(FakeStore().client("proxy"), FetchSettings(), random=Random(2))
        connect, clients = proxy.connect, list[Client]()

        async def connect_until_the_end() -> Client:
            clients.append(await connect())
            return clients[-1]

        proxy.connect = connect_until_the_end  # type: ignore[method-assign]
        try:
            await story(proxy)
        finally:
            for client in clients:
                client.writer.close()
            await proxy.server.stop(0)

    try:
        loop.run_until_complete(run())
        assert not loop.failures, loop.failures
    finally:
        loop.discard()


def now_s() -> float:
    return asyncio.get_running_loop().time()


def set_quotas(proxy: Proxy, **limits: float) -> None:
    """Of every client, together."""
    image = replace(proxy.controller.image, client_quotas={USER: limits})
    proxy.controller.image = image
    proxy.services.throttles.quotas_changed(image.client_quotas)


def begun(proxy: Proxy, api_key: ApiKey = ApiKey.PRODUCE) -> int:
    return proxy.stats.requests[api_key]


async def produce(client: Client, value: bytes = VALUE, **fields: Any) -> int:
    """The throttle time of its answer."""
    answer = await client.ask(ApiKey.PRODUCE, 9, produce_request({0: batch(value)}, topic_id=None, **fields))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    return int(answer.throttle_time_ms)


def fetch_request(offset: int, *, session_id: int = 0, epoch: int = -1, **fields: Any) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10_000_000)
    topics = [FetchTopic(topic="t", partitions=[part])]
    return FetchRequest(
        **{"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 10_000_000, **fields},
        session_id=session_id,
        session_epoch=epoch,
        topics=topics,
    )


def test_without_quotas_nothing_is_looked_up() -> None:
    async def story(proxy: Proxy) -> None:
        client = await proxy.connect()
        assert await produce(client) == 0
        (connection,) = proxy.server.connections
        assert connection._client._context is not None and connection._client._context.throttle is None
        assert connection._client.mute is None

    at_a_proxy(story)


def test_the_produce_that_passes_the_quota_is_answered_at_once_and_the_connection_is_muted() -> None:
    async def story(proxy: Proxy) -> None:
        set_quotas(proxy, **{PRODUCE: 1_000.0})
        client = await proxy.connect()
        assert await produce(client) == 0  # a burst of 11 s' worth
        throttle_ms = await produce(client)
        answered_s = now_s()
        assert 8_000 < throttle_ms < 10_500
        assert answered_s < 1
        client.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())  # any request waits, not only produces
        assert begun(proxy, ApiKey.API_VERSIONS) == 0
        await client.answer(ApiKey.API_VERSIONS, 3)
        assert now_s() == pytest.approx(answered_s + throttle_ms / 1_000, abs=0.1)
        assert proxy.services.throttles.stats.counts["produce"] == 1

    at_a_proxy(story)


def test_a_new_connection_of_the_same_client_finds_the_bucket_as_it_was() -> None:
    async def story(proxy: Proxy) -> None:
        set_quotas(proxy, **{PRODUCE: 1_000.0})
        first = await proxy.connect()
        await produce(first)
        await produce(first)
        await first.close()
        second = await proxy.connect()
        await second.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
        assert now_s() < 1  # what the quota does not count is answered
        sent = second.send(ApiKey.PRODUCE, 9, produce_request({0: batch(b"v")}, topic_id=None))
        answered, _ = await second.answer(ApiKey.PRODUCE, 9)
        assert answered == sent
        assert now_s() > 8

    at_a_proxy(story)


def test_produces_under_way_together_are_begun_one_by_one_at_the_rate_of_the_quota() -> None:
    async def story(proxy: Proxy) -> None:
        set_quotas(proxy, **{PRODUCE: 10_000.0})
        clients = [await proxy.connect() for _ in range(3)]
        times: list[list[float]] = [[] for _ in clients]

        async def load(number: int) -> None:
            for _ in range(60):
                clients[number].send(ApiKey.PRODUCE, 9, produce_request({0: batch(VALUE)}, topic_id=None))
            for _ in range(60):
                await clients[number].answer(ApiKey.PRODUCE, 9)
                times[number].append(now_s())

        await asyncio.gather(*map(load, range(3)))
        together = sorted(time_s for answered in times for time_s in answered)
        size = len(batch(VALUE)) + 60
        measured = sum(30 <= time_s < 90 for time_s in together) * size / 60
        assert measured == pytest.approx(10_000, rel=0.05)
        middle = [sum(30 <= time_s < 90 for time_s in answered) for answered in times]
        assert min(middle) >= 0.7 * max(middle)  # none starves

    at_a_proxy(story)


def test_a_muted_connection_is_not_idle() -> None:
    async def story(proxy: Proxy) -> None:
        set_quotas(proxy, **{PRODUCE: 1_000.0})
        client = await proxy.connect()
        throttle_ms = await produce(client, bytes(61_000))
        assert throttle_ms > 45_000  # three times as long as an idle connection stays open
        await client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
        assert now_s() == pytest.approx(throttle_ms / 1_000, abs=0.5)

    at_a_proxy(story)


def test_another_quota_and_none_end_the_wait() -> None:
    async def story(proxy: Proxy) -> None:
        set_quotas(proxy, **{PRODUCE: 1_000.0})
        first, second = await proxy.connect(), await proxy.connect()
        await produce(first, bytes(200_000))
        second.send(ApiKey.PRODUCE, 9, produce_request({0: batch(b"v")}, topic_id=None))
        await asyncio.sleep(1)
        assert begun(proxy) == 1
        set_quotas(proxy)
        proxy.services.throttles.quotas_changed({})
        await second.answer(ApiKey.PRODUCE, 9)
        assert now_s() < 2

    at_a_proxy(story)


def test_a_fetch_beyond_the_quota_is_answered_empty_at_once_and_its_session_goes_on() -> None:
    async def story(proxy: Proxy) -> None:
        client = await proxy.connect()
        for _ in range(4):
            await produce(client)
        set_quotas(proxy, **{CONSUME: 1_000.0})
        first = await client.ask(ApiKey.FETCH, 12, fetch_request(0, epoch=0, max_bytes=1))
        assert first.session_id and first.throttle_time_ms == 0
        second = await client.ask(ApiKey.FETCH, 12, fetch_request(1, session_id=first.session_id, epoch=1, max_bytes=1))
        assert second.responses and second.throttle_time_ms > 8_000  # it passed the quota, and is answered
        other = await proxy.connect()
        began_s = now_s()
        third = await other.ask(ApiKey.FETCH, 12, fetch_request(2, session_id=first.session_id, epoch=2))
        assert (list(third.responses), third.session_id, third.error_code) == ([], first.session_id, ErrorCode.NONE)
        assert now_s() - began_s < 0.1
        assert third.throttle_time_ms == pytest.approx(second.throttle_time_ms, abs=100)
        fourth = await other.ask(ApiKey.FETCH, 12, fetch_request(2, session_id=first.session_id, epoch=3))
        assert fourth.responses and fourth.error_code == ErrorCode.NONE
        assert now_s() - began_s >= third.throttle_time_ms / 1_000

    at_a_proxy(story)


def test_one_answer_has_at_most_what_the_quota_allows_in_ten_seconds() -> None:
    async def story(proxy: Proxy) -> None:
        client = await proxy.connect()
        for _ in range(10):
            await produce(client)
        set_quotas(proxy, **{CONSUME: 3_000.0})
        answer = await client.ask(ApiKey.FETCH, 12, fetch_request(0))
        size = len(answer.responses[0].partitions[0].records)
        assert len(batch(VALUE)) <= size <= 30_000

    at_a_proxy(story)


def test_clients_under_a_default_quota_have_one_bucket_each() -> None:
    async def story(proxy: Proxy) -> None:
        proxy.services.throttles.quotas_changed({ANY_CLIENT: {PRODUCE: 1_000.0}})
        client = await proxy.connect()
        request = produce_request({0: batch(VALUE)}, topic_id=None)
        for name in ("a", "b"):
            answer = await client.ask(ApiKey.PRODUCE, 9, request, client_id=name)
            assert answer.throttle_time_ms == 0
        answer = await client.ask(ApiKey.PRODUCE, 9, request, client_id="a")
        assert answer.throttle_time_ms > 8_000
        assert len(proxy.services.throttles._bytes) == 2

    at_a_proxy(story)


def test_an_address_beyond_its_rate_of_connections_is_held_and_then_closed() -> None:
    async def story(proxy: Proxy) -> None:
        proxy.services.throttles.quotas_changed({(("ip", None),): {CONNECT: 1.0}})
        clients = [await proxy.connect() for _ in range(12)]
        for client in clients[:10]:
            await client.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
        began_s = now_s()
        clients[11].send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
        assert await clients[11].is_closed_by_server()
        assert 0.1 < now_s() - began_s <= 1.01
        assert begun(proxy, ApiKey.API_VERSIONS) == 10

    at_a_proxy(story)


def test_beyond_the_nodes_rate_a_new_connection_waits_and_is_served() -> None:
    async def story(proxy: Proxy) -> None:
        proxy.services.throttles.set_connection_rate(1)
        clients = [await proxy.connect() for _ in range(12)]
        began_s = now_s()
        await clients[11].ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
        assert 0.1 < now_s() - began_s <= 1.1

    at_a_proxy(story)
