"""What a client may do to a connection, and what it gets: order, limits, bad input. Over real loopback sockets."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest
import structlog

from bmq.metadata.connection_limits import ConnectionLimits
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.api_versions_response import ApiVersionsResponse
from bmq.protocol.messages.describe_cluster_request import DescribeClusterRequest
from bmq.protocol.messages.metadata_request import MetadataRequest
from bmq.protocol.messages.metadata_response import MetadataResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.connection import Connection
from bmq.proxy.dispatch import HANDLERS
from bmq.proxy.limits import ProxyLimits
from bmq.proxy.server import KafkaServer
from bmq.proxy.services import Services
from bmq.proxy.stats import ProxyStats
from tests.unit.proxy.conftest import StartProxy
from tests.unit.proxy.harness import Client, Proxy, batch, produce_request, until

pytestmark = pytest.mark.unit

KNOWN = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")


async def assert_served(proxy: Proxy) -> None:
    """A client that does nothing wrong notices nothing."""
    client = await proxy.connect()
    assert (await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))).topics[0].name == "t"
    await client.close()


async def test_a_connection_is_asked_whether_its_client_lives(proxy: Proxy, client: Client) -> None:
    """A host that lost power closes nothing."""
    await client.ask(ApiKey.API_VERSIONS, 3, KNOWN)
    (connection,) = proxy.server.connections
    assert connection._transport is not None
    made = connection._transport.get_extra_info("socket")
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


# --- order


async def test_answers_leave_in_the_order_of_requests(proxy: Proxy, client: Client) -> None:
    log = proxy.log(0)
    log.is_acknowledging = False
    first = client.send(ApiKey.PRODUCE, 9, produce_request({0: batch(b"a")}))
    second = client.send(ApiKey.API_VERSIONS, 3, KNOWN)
    third = client.send(ApiKey.PRODUCE, 9, produce_request({1: batch(b"b")}))
    await until(lambda: log.pending_count == 1 and proxy.log(1).high_watermark == 1)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await client.reader.read(1)
    log.acknowledge()
    assert (await client.answer(ApiKey.PRODUCE, 9))[0] == first
    assert (await client.answer(ApiKey.API_VERSIONS, 3))[0] == second
    assert (await client.answer(ApiKey.PRODUCE, 9))[0] == third


async def test_a_slow_connection_does_not_hold_up_another(proxy: Proxy, client: Client) -> None:
    proxy.log(0).is_acknowledging = False
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    await until(lambda: proxy.log(0).pending_count == 1)
    await assert_served(proxy)


# --- bad input


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 100 * 1024 * 1024 + 1), id="oversized"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(struct.pack(">i", 0), id="empty frame"),
        pytest.param(struct.pack(">ihh", 4, 18, 3), id="shorter than a header"),
        pytest.param(struct.pack(">ihhihs", 11, 18, 3, 1, 500, b"x"), id="client id past the end"),
        pytest.param(struct.pack(">ihhih", 10, 999, 0, 1, -1), id="unknown API"),
        pytest.param(struct.pack(">ihhih", 10, 4, 0, 1, -1), id="LeaderAndIsr"),
        pytest.param(struct.pack(">ihhih", 10, 38, 1, 1, -1), id="CreateDelegationToken, which has no handler"),
        pytest.param(struct.pack(">ihhih", 10, 0, 2, 1, -1), id="Produce 2, advertised and refused"),
        pytest.param(struct.pack(">ihhih", 10, 3, 99, 1, -1), id="version above"),
        pytest.param(struct.pack(">ihhih", 10, 3, -1, 1, -1), id="version below"),
        pytest.param(struct.pack(">ihhihi", 14, 3, 8, 1, -1, 2**31 - 1), id="absurd array"),
        pytest.param(struct.pack(">ihhihi", 14, 0, 8, 1, -1, 0), id="truncated produce"),
        pytest.param(struct.pack(">ihhihh", 12, 0, 8, 1, -1, 1000), id="string past the end"),
    ],
)
async def test_bad_input_closes_the_connection_with_one_line(proxy: Proxy, raw: bytes) -> None:
    client = await proxy.connect()
    with structlog.testing.capture_logs() as lines:
        client.writer.write(raw)
        assert await client.is_closed_by_server()
    assert [(line["event"], line["log_level"]) for line in lines] == [("connection_closed", "warning")]
    assert "exc_info" not in lines[0] and lines[0]["reason"]
    await client.close()
    await assert_served(proxy)
    assert proxy.stats.in_flight_bytes == 0


async def test_log_lines_about_bad_clients_are_bounded(proxy: Proxy) -> None:
    with structlog.testing.capture_logs() as lines:
        for _ in range(60):
            client = await proxy.connect()
            client.writer.write(struct.pack(">i", -1))
            assert await client.is_closed_by_server()
            await client.close()
    assert proxy.stats.connections_closed_bad == 60
    assert len(lines) < 60


@pytest.mark.parametrize("version", [-1, 6, 99, 32767])
async def test_an_unknown_version_of_api_versions_is_answered_in_the_shape_of_version_0(
    proxy: Proxy, client: Client, version: int
) -> None:
    header_tags = b"\0" if version >= 3 else b""  # of a header of version 2
    client.send_frame(struct.pack(">hhih", ApiKey.API_VERSIONS, version, 77, -1) + header_tags)
    correlation_id, response = await client.answer(ApiKey.API_VERSIONS, 0)
    assert correlation_id == 77
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(a.api_key, a.min_version, a.max_version) for a in response.api_keys] == [(18, 0, 5)]
    # The connection goes on: the client now asks in a version it was told.
    assert (await client.ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0


async def test_a_truncated_frame_and_the_end_of_the_stream(proxy: Proxy) -> None:
    client = await proxy.connect()
    frame = encode_request(ApiKey.METADATA, 12, 1, "x", MetadataRequest(topics=None))
    client.writer.write(len(frame).to_bytes(4, "big") + frame[:-3])
    client.writer.write_eof()
    assert await client.is_closed_by_server()
    await client.close()
    await until(lambda: proxy.stats.connections == 0)
    assert proxy.stats.in_flight_bytes == 0


async def test_a_client_that_leaves_while_its_produce_waits(proxy: Proxy) -> None:
    log = proxy.log(0)
    log.is_acknowledging = False
    client = await proxy.connect()
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    await until(lambda: log.pending_count == 1)
    client.writer.transport.abort()
    await until(lambda: proxy.stats.connections == 0)
    assert proxy.stats.in_flight_bytes == 0
    log.acknowledge()  # nobody is there for the answer; the record is in the log all the same
    assert log.high_watermark == 1
    await assert_served(proxy)


# --- limits


async def test_fifty_thousand_tiny_requests_starve_nobody_and_pile_up_nowhere(start: StartProxy) -> None:
    """50,000 requests of 15 bytes on one connection; another is served all the while. Half a million: e2e/test_bad_input.py."""
    proxy = await start(ProxyLimits(in_flight_requests_max=32))
    frame = struct.pack(">ihhihb", 11, ApiKey.API_VERSIONS, 99, 1, -1, 0)
    flood = await proxy.connect()
    other = await proxy.connect()
    count, chunk = 50_000, 5_000
    answer_bytes = len(await _one_answer(proxy, frame))
    total = count * answer_bytes
    received = 0
    in_flight_max = 0

    async def send() -> None:
        for _ in range(count // chunk):
            flood.writer.write(frame * chunk)
            await flood.writer.drain()

    async def receive() -> None:
        nonlocal received, in_flight_max
        while received < total:
            received += len(await flood.reader.read(2**18))
            in_flight_max = max(in_flight_max, proxy.stats.in_flight_bytes)

    async with asyncio.TaskGroup() as group:
        group.create_task(send())
        receiving = group.create_task(receive())
        served = 0
        while not receiving.done():
            assert (await other.ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
            served += 1
    assert received == total
    assert served > 50
    assert in_flight_max <= 32 * 11 + 1024
    await flood.close()
    await other.close()


async def _one_answer(proxy: Proxy, frame: bytes) -> bytes:
    client = await proxy.connect()
    client.writer.write(frame)
    answer = await client.read_frame()
    await client.close()
    return len(answer).to_bytes(4, "big") + answer


async def test_a_client_that_sends_and_never_reads_is_bounded(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(unsent_bytes_max=64 * 1024))
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, (proxy.host, proxy.port))
    body = encode_request(ApiKey.METADATA, 12, 1, "x", MetadataRequest(topics=None))
    frames = (len(body).to_bytes(4, "big") + body) * 1000
    sent = 0
    stuck = 0
    while stuck < 2_000:
        try:
            sent += made.send(frames[sent % len(body + b"....") :])
            stuck = 0
        except BlockingIOError:
            stuck += 1
        await asyncio.sleep(0)
        assert sent < 64 * 1024 * 1024, "the server goes on reading"
    connection = proxy.server.connections[0]
    assert connection._transport is not None
    assert connection._transport.get_write_buffer_size() < 1024 * 1024
    assert proxy.stats.reads_paused > 0
    assert proxy.stats.in_flight_bytes < 1024 * 1024
    await assert_served(proxy)
    made.close()
    await until(lambda: proxy.stats.connections == 0)


async def test_a_full_shared_budget_stops_reading_and_goes_on_when_there_is_room(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(in_flight_total_bytes_max=1000, in_flight_reserved_bytes=0))
    log = proxy.log(0)
    log.is_acknowledging = False
    clients = [await proxy.connect() for _ in range(3)]
    for client in clients:
        client.send(ApiKey.PRODUCE, 9, produce_request({0: batch(bytes(800))}))
        client.send(ApiKey.PRODUCE, 9, produce_request({0: batch(bytes(800))}))
    await until(lambda: proxy.stats.reads_paused >= 3)
    assert proxy.stats.in_flight_bytes <= 3000
    seen = 0
    for _ in range(6):
        await until(lambda: log.pending_count > 0)
        assert proxy.stats.in_flight_bytes <= 3000
        seen += log.pending_count
        log.acknowledge()
        await asyncio.sleep(0)
        if seen == 6:
            break
    log.is_acknowledging = True
    log.acknowledge()
    for client in clients:
        for _ in range(2):
            response = (await client.answer(ApiKey.PRODUCE, 9))[1]
            assert response.responses[0].partition_responses[0].error_code == 0
        await client.close()
    assert log.high_watermark == 6
    await until(lambda: proxy.stats.in_flight_bytes == 0)


async def test_requests_in_flight_of_one_connection_are_bounded(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(in_flight_requests_max=4))
    log = proxy.log(0)
    log.is_acknowledging = False
    client = await proxy.connect()
    for _ in range(20):
        client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    await until(lambda: log.pending_count == 4)
    for _ in range(50):
        await asyncio.sleep(0)
    assert log.pending_count == 4
    log.is_acknowledging = True
    log.acknowledge()
    answered = [(await client.answer(ApiKey.PRODUCE, 9))[0] for _ in range(20)]
    assert answered == list(range(1, 21))
    await client.close()


async def test_one_request_larger_than_the_connections_budget_passes_alone(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(in_flight_bytes_max=10_000))
    client = await proxy.connect()
    response = await client.ask(ApiKey.PRODUCE, 9, produce_request({0: batch(bytes(2_000_000))}))
    assert response.responses[0].partition_responses[0].error_code == 0
    assert len(proxy.log(0).batches[0].data) > 2_000_000
    await client.close()


async def test_connections_beyond_the_limit_are_closed(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(connections_max=2))
    kept = [await proxy.connect() for _ in range(2)]
    assert (await kept[0].ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    assert (await kept[1].ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    refused = await proxy.connect()
    assert await refused.is_closed_by_server()
    assert proxy.stats.connections_refused == 1
    assert (await kept[0].ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    for client in (*kept, refused):
        await client.close()


async def test_limits_in_force_count_for_each_new_connection(start: StartProxy) -> None:
    """All connections of a test come from one address."""
    proxy = await start(ProxyLimits(connections_max=1))
    limits = ConnectionLimits(total=9, per_host=2)
    proxy.services.connection_limits = lambda: limits
    kept = [await proxy.connect() for _ in range(2)]
    assert (await kept[0].ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    assert (await kept[1].ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    refused = [await proxy.connect()]
    assert await refused[-1].is_closed_by_server()
    limits = ConnectionLimits(total=9, per_host=0, by_host={proxy.host: 3})
    kept.append(await proxy.connect())
    assert (await kept[2].ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    limits = ConnectionLimits(total=3)
    refused.append(await proxy.connect())
    assert await refused[-1].is_closed_by_server()
    assert proxy.stats.connections_refused == 2
    await kept.pop().close()
    limits = ConnectionLimits(total=9, per_host=3)
    kept.append(await proxy.connect())
    assert (await kept[2].ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0, "a closed one counts no more"
    for client in (*kept, *refused):
        await client.close()


async def test_before_a_listener_serves_its_own_limits_count() -> None:
    """A simulated network has connections arrive as soon as the address is taken."""
    listener = KafkaServer(ProxyLimits(connections_max=1), ProxyStats())
    first, second = Connection(listener), Connection(listener)
    assert [listener.admit(one) for one in (first, second)] == [True, False]


async def test_a_silent_connection_is_closed_and_one_that_waits_for_an_answer_is_not(start: StartProxy) -> None:
    proxy = await start(ProxyLimits(connections_max_idle_ms=0))
    proxy.log(0).is_acknowledging = False
    silent, waiting = await proxy.connect(), await proxy.connect()
    waiting.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    await until(lambda: proxy.log(0).pending_count == 1 and proxy.stats.connections == 2)
    later_s = proxy.server.loop.time() + 1
    for connection in proxy.server.connections:
        connection.close_if_idle(later_s)
    assert await silent.is_closed_by_server()
    proxy.log(0).acknowledge()
    assert (await waiting.answer(ApiKey.PRODUCE, 9))[0] == 1
    await silent.close()
    await waiting.close()


# --- handlers that fail


async def test_a_handler_that_raises_answers_unknown_server_error_with_one_line(
    proxy: Proxy, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(request: object, context: RequestContext, services: Services) -> ApiVersionsResponse:
        raise RuntimeError("a mistake")

    monkeypatch.setitem(HANDLERS, ApiKey.DESCRIBE_CLUSTER, broken)
    with structlog.testing.capture_logs() as lines:
        response = await client.ask(ApiKey.DESCRIBE_CLUSTER, 1, DescribeClusterRequest())
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [line["event"] for line in lines] == ["handler_failed"]
    assert not lines[0].get("exc_info")
    assert (await client.ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0


async def test_an_answer_with_no_room_for_its_strings_closes_the_connection(
    proxy: Proxy, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def too_long(request: object, context: RequestContext, services: Services) -> MetadataResponse:
        return MetadataResponse(cluster_id="x" * 40_000)

    monkeypatch.setitem(HANDLERS, ApiKey.METADATA, too_long)
    client.send(ApiKey.METADATA, 4, MetadataRequest(topics=None))
    client.send(ApiKey.API_VERSIONS, 3, KNOWN)
    assert await client.is_closed_by_server()
    await assert_answers(proxy)


async def assert_answers(proxy: Proxy) -> None:
    client = await proxy.connect()
    assert (await client.ask(ApiKey.API_VERSIONS, 3, KNOWN)).error_code == 0
    await client.close()


async def test_the_software_a_client_names_reaches_later_handlers(
    proxy: Proxy, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RequestContext] = []
    real = HANDLERS[ApiKey.METADATA]

    async def spy(request: object, context: RequestContext, services: Services) -> object:
        seen.append(context)
        return await real(request, context, services)

    monkeypatch.setitem(HANDLERS, ApiKey.METADATA, spy)
    await client.ask(ApiKey.API_VERSIONS, 3, KNOWN)
    await client.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
    assert (seen[0].client_software_name, seen[0].client_software_version) == ("tester", "1.0")
    assert (seen[0].client_id, seen[0].client_host, seen[0].api_version) == ("test", "127.0.0.1", 12)


# --- stopping


async def test_a_stop_lets_produces_in_flight_finish(start: StartProxy) -> None:
    proxy = await start()
    log = proxy.log(0)
    log.is_acknowledging = False
    client = await proxy.connect()
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    await until(lambda: log.pending_count == 1)
    stopping = asyncio.create_task(proxy.server.stop(30))
    await asyncio.sleep(0)
    with pytest.raises(OSError):
        await asyncio.open_connection(proxy.host, proxy.port)
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))  # comes too late
    log.acknowledge()
    correlation_id, response = await client.answer(ApiKey.PRODUCE, 9)
    assert correlation_id == 1
    assert response.responses[0].partition_responses[0].error_code == 0
    assert await client.is_closed_by_server()
    await stopping
    assert log.pending_count == 0 and log.high_watermark == 1
    await client.close()


async def test_a_stop_waits_no_longer_than_it_may(start: StartProxy) -> None:
    proxy = await start()
    proxy.log(0).is_acknowledging = False
    client = await proxy.connect()
    client.send(ApiKey.PRODUCE, 9, produce_request({0: batch()}))
    await until(lambda: proxy.log(0).pending_count == 1)
    with structlog.testing.capture_logs() as logged:
        await proxy.server.stop(0.01)
    (told,) = [line for line in logged if line["event"] == "connections_cut"]
    assert (told["connections"], told["unanswered"]) == (1, {"PRODUCE": 1})
    assert await client.is_closed_by_server()
    await client.close()
