"""Half-sent requests: counted in the shared budget, and never the reason why nobody gets on."""

from __future__ import annotations

import asyncio

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode_request
from bmq.proxy.limits import ProxyLimits
from tests.unit.proxy.conftest import StartProxy
from tests.unit.proxy.harness import batch, produce_request, until

pytestmark = pytest.mark.unit

MIB = 1024 * 1024
FRAME = encode_request(ApiKey.PRODUCE, 9, 1, "x", produce_request({0: batch(bytes(4 * MIB))}))


async def test_half_sent_requests_stay_within_the_shared_budget_and_all_finish(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(in_flight_total_bytes_max=6 * MIB))
    clients = [await proxy.connect() for _ in range(8)]
    used_max = 0

    async def send(number: int) -> None:
        clients[number].send_frame(FRAME)
        await clients[number].writer.drain()

    sending = [asyncio.create_task(send(number)) for number in range(len(clients))]
    answering = [asyncio.create_task(client.answer(ApiKey.PRODUCE, 9)) for client in clients]
    while not all(task.done() for task in answering):
        used_max = max(used_max, proxy.stats.in_flight_bytes)
        await asyncio.sleep(0)
    await asyncio.gather(*sending)
    for task in answering:
        assert task.result()[1].responses[0].partition_responses[0].error_code == 0
    # Past the limit: the frame of the one that overdraws, and what another had just grown to.
    assert used_max < (6 + 4 + 4 + 1) * MIB
    assert proxy.stats.in_flight_bytes == 0
    for client in clients:
        await client.close()


async def test_one_that_stalls_on_a_full_budget_is_closed(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(in_flight_total_bytes_max=MIB))
    stalled, other = await proxy.connect(), await proxy.connect()
    stalled.writer.write(len(FRAME).to_bytes(4, "big") + FRAME[: 2 * MIB])
    await until(lambda: proxy.server.is_full)
    other.send_frame(FRAME)
    for connection in proxy.server.connections:
        connection.close_if_stalled(proxy.server.loop.time() + 1)
    assert await stalled.is_closed_by_server()
    assert (await other.answer(ApiKey.PRODUCE, 9))[1].responses[0].partition_responses[0].error_code == 0
    assert proxy.stats.in_flight_bytes == 0
    await stalled.close()
    await other.close()


async def test_one_that_drips_on_a_full_budget_is_closed_too(start: StartProxy) -> None:
    """Each byte of it is news; but the one that goes past the limit has a time in all."""
    proxy = await start(ProxyLimits(in_flight_total_bytes_max=MIB, stalled_request_ms=0))
    dripping, other = await proxy.connect(), await proxy.connect()
    dripping.writer.write(len(FRAME).to_bytes(4, "big") + FRAME[: 2 * MIB])
    await until(lambda: proxy.server.is_full and proxy.stats.in_flight_bytes >= 2 * MIB)
    other.send_frame(FRAME)
    dripping.writer.write(FRAME[2 * MIB : 2 * MIB + 1])
    (overdrawing,) = [one for one in proxy.server.connections if proxy.server.may_overdraw(one)]
    overdrawing.active_at_s = proxy.server.loop.time() + 60
    proxy.server._housekeeping()
    assert await dripping.is_closed_by_server()
    assert (await other.answer(ApiKey.PRODUCE, 9))[1].responses[0].partition_responses[0].error_code == 0
    await dripping.close()
    await other.close()


async def test_small_requests_are_answered_while_the_budget_is_full(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(in_flight_total_bytes_max=MIB))
    half, small = await proxy.connect(), await proxy.connect()
    half.writer.write(len(FRAME).to_bytes(4, "big") + FRAME[: 2 * MIB])
    await until(lambda: proxy.server.is_full)
    answer = await small.ask(ApiKey.PRODUCE, 9, produce_request({0: batch(b"x" * 1000)}))
    assert answer.responses[0].partition_responses[0].error_code == 0
    assert proxy.server.is_full
    await half.close()
    await small.close()


async def test_an_announced_length_costs_next_to_nothing(start: StartProxy) -> None:
    proxy = await start()
    clients = [await proxy.connect() for _ in range(50)]
    for client in clients:
        client.writer.write((100 * MIB).to_bytes(4, "big"))
    await until(lambda: proxy.stats.received_bytes == 4 * len(clients))
    assert proxy.stats.in_flight_bytes <= len(clients) * ProxyLimits().frame_bytes_at_first_max
    for client in clients:
        await client.close()
