"""The budget of decoded requests: nobody is admitted beyond it, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from bmq.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from bmq.protocol.turns import ELEMENTS_PER_TURN_MAX
from bmq.proxy.connected_client import KEPT_NAME_CHARS_MAX
from bmq.proxy.large_requests import DECODED_ELEMENT_BYTES, TRIMMED_AFTER_BYTES, LargeRequests, decoded_bytes
from bmq.proxy.limits import ProxyLimits
from tests.simulation.loop import VirtualTimeLoop
from tests.unit.proxy.conftest import StartProxy
from tests.unit.proxy.harness import Proxy

pytestmark = pytest.mark.unit

LARGE = MetadataRequest(
    topics=[MetadataRequestTopic(name=f"missing-{number}") for number in range(5_000)], allow_auto_topic_creation=False
)


async def test_those_beyond_the_budget_wait_in_their_order() -> None:
    budget = LargeRequests(100)
    first = await budget.admit(60)
    second = asyncio.ensure_future(budget.admit(50))
    third = asyncio.ensure_future(budget.admit(10))  # has room, but not before the second
    await asyncio.sleep(0)
    assert (budget.held_bytes, budget.waiting_count) == (60, 2)
    first.release()
    first.release()
    await asyncio.gather(second, third)
    assert (budget.held_bytes, budget.waiting_count) == (60, 0)
    second.result().release()
    third.result().release()
    assert budget.held_bytes == 0


async def test_one_that_is_larger_than_the_budget_is_admitted_alone() -> None:
    budget = LargeRequests(100)
    small = await budget.admit(1)
    large = asyncio.ensure_future(budget.admit(1_000))
    await asyncio.sleep(0)
    assert not large.done()
    small.release()
    (await large).release()
    assert budget.held_bytes == 0


async def test_one_whose_client_left_makes_room() -> None:
    budget = LargeRequests(100)
    held = await budget.admit(90)
    gone, waiting = (asyncio.ensure_future(budget.admit(size)) for size in (50, 10))
    await asyncio.sleep(0)
    gone.cancel()
    (await waiting).release()
    also_gone = asyncio.ensure_future(budget.admit(50))
    await asyncio.sleep(0)
    held.release()  # it is admitted, and cancelled before it hears of it
    also_gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await also_gone
    assert (budget.held_bytes, budget.waiting_count) == (0, 0)


def test_room_is_given_back_by_a_request_that_waits_for_long() -> None:
    loop = VirtualTimeLoop()

    async def main() -> None:
        budget = LargeRequests(100)
        await budget.admit(100)
        (await budget.admit(100)).release()

    try:
        loop.run_until_complete(main())
    finally:
        loop.discard()


def test_the_estimate_grows_with_the_frame_up_to_what_a_message_may_have() -> None:
    assert decoded_bytes(1_000) == 1_000 + 500 * DECODED_ELEMENT_BYTES
    assert decoded_bytes(10**7) == 10**7 + 250_000 * DECODED_ELEMENT_BYTES


async def test_a_large_request_is_answered_as_a_small_one(proxy: Proxy) -> None:
    client = await proxy.connect()
    answer = await client.ask(ApiKey.METADATA, 12, LARGE)
    assert [topic.name for topic in answer.topics] == [topic.name for topic in LARGE.topics]  # type: ignore[union-attr]
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert [broker.node_id for broker in answer.brokers] == [1]
    assert proxy.server.large_requests.held_bytes == 0
    await client.close()


async def test_the_next_request_begins_when_the_large_one_is_answered(proxy: Proxy) -> None:
    client = await proxy.connect()
    first = client.send(ApiKey.METADATA, 12, LARGE)
    second = client.send(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    other = await proxy.connect()
    await other.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())  # others are served meanwhile
    assert (await client.answer(ApiKey.METADATA, 12))[0] == first
    assert (await client.answer(ApiKey.API_VERSIONS, 3))[0] == second
    await client.close()
    await other.close()


async def test_a_large_request_that_does_not_parse_closes_its_connection(proxy: Proxy) -> None:
    client = await proxy.connect()
    client.send_frame(ApiKey.METADATA.to_bytes(2, "big") + b"\0\x0c" + b"\xff" * 5_000)
    assert await client.is_closed_by_server()
    await client.close()


async def test_a_client_that_leaves_while_its_request_waits_leaves_nothing(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(decoded_bytes_max=1))
    held = await proxy.server.large_requests.admit(1)
    client, other = await proxy.connect(), await proxy.connect()
    client.send(ApiKey.METADATA, 12, LARGE)
    while not proxy.server.large_requests.waiting_count:
        await other.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    proxy.server.connections[0].abort()
    while proxy.server.large_requests.waiting_count:
        await other.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    held.release()
    assert proxy.server.large_requests.held_bytes == 0
    assert proxy.stats.in_flight_bytes == 0
    await client.close()
    await other.close()


async def test_only_a_produce_may_be_very_long(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(other_request_bytes_max=100_000))
    client = await proxy.connect()
    head = (300_000).to_bytes(4, "big")
    client.writer.write(head + ApiKey.METADATA.to_bytes(2, "big") + bytes(200_000))
    assert await client.is_closed_by_server()
    await client.close()
    client = await proxy.connect()
    client.writer.write(head + ApiKey.PRODUCE.to_bytes(2, "big") + bytes(200_000))
    other = await proxy.connect()
    while not proxy.stats.in_flight_bytes > 100_000:
        await other.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    assert len(proxy.server.connections) == 2
    await client.close()
    await other.close()


async def test_a_connection_keeps_no_long_names(proxy: Proxy) -> None:
    client = await proxy.connect()
    hello = ApiVersionsRequest(client_software_name="n" * 30_000, client_software_version="1" * 30_000)
    await client.ask(ApiKey.API_VERSIONS, 3, hello, client_id="c" * 30_000)
    await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[]), client_id="c" * 30_000)
    connection = proxy.server.connections[0]
    assert all(len(name) <= KEPT_NAME_CHARS_MAX for name in connection._client._software)
    assert connection._client._context is None
    await client.close()


async def test_a_large_request_that_waited_too_long_is_not_carried_out(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(decoded_bytes_max=1, large_request_ms=0))
    held = await proxy.server.large_requests.admit(1)
    client, other = await proxy.connect(), await proxy.connect()
    creating = MetadataRequest(topics=LARGE.topics, allow_auto_topic_creation=True)
    client.send(ApiKey.METADATA, 12, creating)
    while not proxy.server.large_requests.waiting_count:
        await other.ask(ApiKey.API_VERSIONS, 3, ApiVersionsRequest())
    held.release()
    assert await client.is_closed_by_server()
    assert not proxy.controller.created
    await client.close()
    await other.close()


async def test_a_large_request_whose_parts_take_too_long_has_no_answer(
    start: StartProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were left out would be missing in it."""
    proxy = await start()
    create = proxy.controller.auto_create_topic

    async def create_until_it_is_old(name: str) -> None:
        proxy.server.limits = replace(proxy.server.limits, large_request_ms=0)
        await create(name)

    monkeypatch.setattr(proxy.controller, "auto_create_topic", create_until_it_is_old)
    client = await proxy.connect()
    creating = MetadataRequest(topics=LARGE.topics, allow_auto_topic_creation=True)
    client.send(ApiKey.METADATA, 12, creating)
    assert await client.is_closed_by_server()
    assert 0 < len(proxy.controller.created) <= ELEMENTS_PER_TURN_MAX
    await client.close()


async def test_an_answer_may_have_a_bounded_number_of_elements(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.proxy.part_answers.ANSWER_ELEMENTS_MAX", 2_000)
    client = await proxy.connect()
    client.send(ApiKey.METADATA, 12, LARGE)
    assert await client.is_closed_by_server()
    await client.close()
    monkeypatch.setattr("bmq.proxy.part_answers.ANSWER_ELEMENTS_MAX", 20_000)
    client = await proxy.connect()
    assert len((await client.ask(ApiKey.METADATA, 12, LARGE)).topics) == len(LARGE.topics)  # type: ignore[arg-type]
    await client.close()


async def test_what_changes_nothing_is_answered_however_late(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(large_request_ms=-1))
    client = await proxy.connect()
    partitions = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(300)]
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    assert len((await client.ask(ApiKey.LIST_OFFSETS, 7, asked)).topics[0].partitions) == 300
    client.send(ApiKey.METADATA, 12, LARGE)
    assert await client.is_closed_by_server()
    await client.close()


async def test_freed_memory_is_given_back_after_many_bytes_of_large_requests() -> None:
    trimmed = asyncio.Event()
    trims: list[int] = []

    def trim() -> None:
        trims.append(budget.held_bytes)
        trimmed.set()

    budget = LargeRequests(2 * TRIMMED_AFTER_BYTES, trim)
    for _ in range(2):
        trimmed.clear()
        first = await budget.admit(TRIMMED_AFTER_BYTES - 1)
        first.release()
        assert budget._trim_due is None
        for _ in range(3):
            (await budget.admit(TRIMMED_AFTER_BYTES)).release()
        await trimmed.wait()
    assert trims == [0, 0]
