"""The listener between nodes: what it serves, answers out of order, much in flight, and peers that go away."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog

from bmq.internode_client.link import LinkLost
from bmq.protocol.apis import APIS, INTERNAL_APIS, ApiKey
from bmq.protocol.codec import decode_response, encode, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.internal_messages import DeleteBeforeRequest, DeleteBeforeResponse
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS
from bmq.proxy.limits import BETWEEN_NODES
from bmq.proxy.services import Services
from tests.unit.internode_server.internal_node import InternalNode, start_internal_node
from tests.unit.proxy.harness import Client, batch, produce_request, start_proxy, until

pytestmark = pytest.mark.unit

Start = Callable[..., Awaitable[InternalNode]]
LONG_S = 60.0
BEFORE = ApiKey.DELETE_BEFORE


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    nodes: list[InternalNode] = []

    async def start_one(**options: Any) -> InternalNode:
        nodes.append(await start_internal_node(replace(BETWEEN_NODES, **options)))
        return nodes[-1]

    yield start_one
    for node in nodes:
        await node.stop()


@pytest.fixture
async def node(start: Start) -> InternalNode:
    return await start()


class Gate:
    """A handler whose answers wait until the test lets each of them out."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.contexts: list[RequestContext] = []
        self.cancelled: list[int] = []
        self.waiting: dict[int, asyncio.Future[None]] = {}

    async def __call__(self, request: Any, context: RequestContext, services: Services) -> DeleteBeforeResponse:
        number = request.before_offset
        self.begun.append(number)
        self.contexts.append(context)
        self.waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self.waiting[number]
        except asyncio.CancelledError:
            self.cancelled.append(number)
            raise
        return DeleteBeforeResponse(log_start_offset=number)

    def open(self, number: int) -> None:
        self.waiting[number].set_result(None)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate()
    monkeypatch.setitem(HANDLERS, BEFORE, made)
    return made


NAMED_WHILE_WANTED = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
"""Clients hear of them when somebody subscribes to their metrics."""


def ask(number: int) -> DeleteBeforeRequest:
    return DeleteBeforeRequest(before_offset=number)


# --- what is served


async def test_each_listener_advertises_what_it_serves(node: InternalNode) -> None:
    proxy = await start_proxy()
    request = ApiVersionsRequest(client_software_name="tester", client_software_version="1.0")
    for port, apis in ((node.port, INTERNAL_APIS), (proxy.port, APIS)):
        client = await connect(proxy.host, port)
        response = await client.ask(ApiKey.API_VERSIONS, 3, request)
        advertised = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
        assert advertised == {
            key: (api.advertised_min, api.version_max)
            for key, api in apis.items()
            if (key in HANDLERS or key in HOT_HANDLERS) and key not in NAMED_WHILE_WANTED
        }
        await client.close()
    assert ApiKey.ENVELOPE in INTERNAL_APIS and ApiKey.ENVELOPE not in APIS
    await proxy.server.stop(0)
    await asyncio.sleep(0)


async def connect(host: str, port: int) -> Client:
    return Client(*await asyncio.open_connection(host, port))


@pytest.mark.parametrize("api_key", [ApiKey.METADATA, ApiKey.FETCH, ApiKey.JOIN_GROUP, 999])
async def test_an_api_of_clients_closes_the_connection(node: InternalNode, api_key: int) -> None:
    await assert_closed(node.host, node.port, api_key)
    assert node.server.stats.in_flight_bytes == 0


@pytest.mark.parametrize("api_key", [ApiKey.ENVELOPE, ApiKey.DELETE_BEFORE, ApiKey.BROKER_HEARTBEAT])
async def test_an_api_of_nodes_closes_a_clients_connection(api_key: int) -> None:
    proxy = await start_proxy()
    await assert_closed(proxy.host, proxy.port, api_key)
    await proxy.server.stop(0)
    await asyncio.sleep(0)


async def assert_closed(host: str, port: int, api_key: int) -> None:
    client = await connect(host, port)
    with structlog.testing.capture_logs() as lines:
        client.send_frame(struct.pack(">hhihb", api_key, 0, 1, -1, 0))
        assert await client.is_closed_by_server()
    assert [(line["event"], line["reason"]) for line in lines] == [
        ("connection_closed", f"API {int(api_key)} is not served")
    ]
    await client.close()


async def test_a_failing_handler_of_our_own_apis_answers_with_its_code(
    node: InternalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(request: Any, context: RequestContext, services: Services) -> Any:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here")

    monkeypatch.setitem(HANDLERS, BEFORE, refuse)
    link = await node.link()
    response = await link.call(BEFORE, ask(1), timeout_s=LONG_S)
    assert (response.error_code, response.error_message) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, "not here")


# --- order


async def test_answers_leave_as_soon_as_each_is_done_and_requests_begin_in_order(
    node: InternalNode, gate: Gate
) -> None:
    link = await node.link()
    futures = [link.send(BEFORE, ask(number), timeout_s=LONG_S) for number in range(4)]
    await until(lambda: len(gate.begun) == 4)
    assert gate.begun == [0, 1, 2, 3]
    for number in (2, 0, 3, 1):
        gate.open(number)
        assert (await futures[number]).log_start_offset == number
        done = [n for n in range(4) if futures[n].done()]
        assert len(done) == [2, 0, 3, 1].index(number) + 1


async def test_a_produce_does_not_wait_for_the_one_before_it(node: InternalNode) -> None:
    slow, fast = (next(log for key, log in node.partitions.logs.items() if key.partition == n) for n in (0, 1))
    slow.is_acknowledging = False
    link = await node.link()
    answers: list[tuple[int, Any]] = []
    second = asyncio.Event()
    for number in (0, 1):

        def answered(frame: bytearray | None, number: int = number) -> None:
            assert frame is not None
            answers.append((number, decode_response(ApiKey.PRODUCE, 13, frame)[1]))
            second.set()

        body = encode("request", ApiKey.PRODUCE, 13, produce_request({number: batch(b"v")}))
        link.send_frame(ApiKey.PRODUCE, (body,), answered)
    await second.wait()
    assert [number for number, _ in answers] == [1]
    assert fast.high_watermark == 1 and slow.pending_count == 1
    slow.acknowledge()
    await until(lambda: len(answers) == 2)
    assert all(answer.responses[0].partition_responses[0].error_code == 0 for _, answer in answers)
    assert node.server.stats.in_flight_bytes == 0


# --- limits


async def test_thousands_of_requests_are_under_way_on_one_link(node: InternalNode, gate: Gate) -> None:
    link = await node.link()
    count = 5_000
    futures = [link.send(BEFORE, ask(number), timeout_s=LONG_S) for number in range(count)]
    await until(lambda: len(gate.begun) == count)
    for number in reversed(range(count)):
        gate.open(number)
    assert [answer.log_start_offset for answer in await asyncio.gather(*futures)] == list(range(count))
    assert node.server.stats.in_flight_bytes == 0


async def test_requests_under_way_are_bounded_all_the_same(start: Start, gate: Gate) -> None:
    node = await start(in_flight_requests_max=4)
    link = await node.link()
    futures = [link.send(BEFORE, ask(number), timeout_s=LONG_S) for number in range(10)]
    await until(lambda: len(gate.begun) == 4)
    for _ in range(50):
        await asyncio.sleep(0)
    assert gate.begun == [0, 1, 2, 3]
    gate.open(2)
    await until(lambda: len(gate.begun) == 5)
    assert gate.begun[-1] == 4 and (await futures[2]).log_start_offset == 2
    for number in (0, 1, 3, 4, 5, 6, 7, 8, 9):
        await until(lambda number=number: number in gate.waiting)
        gate.open(number)
    await asyncio.gather(*futures)
    assert gate.begun == list(range(10))


@pytest.mark.parametrize(("reserved_bytes", "is_served"), [(64 * 1024, True), (0, False)])
async def test_small_requests_get_through_while_bulk_fills_the_shared_budget(
    start: Start, gate: Gate, reserved_bytes: int, is_served: bool
) -> None:
    """Produces wait for a store that hangs; heartbeats of other connections must not wait with them."""
    node = await start(in_flight_total_bytes_max=1024 * 1024, in_flight_reserved_bytes=reserved_bytes)
    log = next(iter(node.partitions.logs.values()))
    log.is_acknowledging = False
    bulk, control = await node.link(), await node.link()
    body = encode("request", ApiKey.PRODUCE, 13, produce_request({0: batch(bytes(300_000))}))
    answers: list[bytearray | None] = []
    for _ in range(20):
        bulk.send_frame(ApiKey.PRODUCE, (body,), answers.append)
    await until(lambda: node.server.is_full and node.server.stats.reads_paused > 0)
    begun_count = log.pending_count
    beat = control.send(BEFORE, ask(1), timeout_s=LONG_S)
    if is_served:
        await until(lambda: gate.begun == [1])
        gate.open(1)
        await beat
    else:
        for _ in range(500):
            await asyncio.sleep(0)
        assert gate.begun == []
    assert log.pending_count == begun_count < 20
    assert node.server.stats.in_flight_bytes < 2 * 1024 * 1024
    log.is_acknowledging = True
    log.acknowledge()
    await until(lambda: len(answers) == 20)
    assert None not in answers


async def test_a_long_poll_keeps_its_connection_and_silence_does_not(start: Start, gate: Gate) -> None:
    node = await start(connections_max_idle_ms=0)
    waiting, silent = await node.link(), await node.link()
    poll = waiting.send(BEFORE, ask(1), timeout_s=LONG_S)
    await until(lambda: gate.begun == [1])
    lost = asyncio.Event()
    silent.on_lost(lost.set)
    for connection in node.server.connections:
        connection.close_if_idle(node.server.loop.time() + 1)
    await lost.wait()
    gate.open(1)
    assert (await poll).log_start_offset == 1


# --- peers


async def test_handlers_are_told_when_their_peer_is_gone(node: InternalNode, gate: Gate) -> None:
    told: list[str] = []

    def once() -> None:
        told.append("once")

    def broken() -> None:
        raise ValueError("a mistake")

    link = await node.link()
    link.send(BEFORE, ask(1), timeout_s=LONG_S)
    link.send(BEFORE, ask(2), timeout_s=LONG_S)
    await until(lambda: len(gate.begun) == 2)
    peer = gate.contexts[0].peer
    assert peer is not None and gate.contexts[1].peer is peer
    with structlog.testing.capture_logs() as lines:
        for callback in (once, broken, once, lambda: told.append("last")):
            peer.on_lost(callback)
        assert told == []
        link.close()
        await until(lambda: told)
        assert told == ["once", "last"]
        peer.on_lost(once)
        await asyncio.sleep(0)
        assert told == ["once", "last", "once"]
    assert [line["event"] for line in lines] == ["lost_callback_failed"]


async def test_two_links_are_two_peers(node: InternalNode, gate: Gate) -> None:
    for number in range(2):
        (await node.link()).send(BEFORE, ask(number), timeout_s=LONG_S)
    await until(lambda: len(gate.begun) == 2)
    assert gate.contexts[0].peer is not gate.contexts[1].peer


async def test_what_a_lost_peer_asked_for_is_cancelled(node: InternalNode, gate: Gate) -> None:
    link = await node.link()
    futures = [link.send(BEFORE, ask(number), timeout_s=LONG_S) for number in range(3)]
    await until(lambda: len(gate.begun) == 3)
    gate.open(1)
    await futures[1]
    link.close()
    await until(lambda: sorted(gate.cancelled) == [0, 2])
    await until(lambda: node.server.stats.connections == 0)
    assert node.server.stats.in_flight_bytes == 0


async def test_a_stop_lets_what_has_begun_be_answered(node: InternalNode, gate: Gate) -> None:
    link = await node.link()
    futures = [link.send(BEFORE, ask(number), timeout_s=LONG_S) for number in range(2)]
    await until(lambda: len(gate.begun) == 2)
    stopping = asyncio.create_task(node.server.stop(30))
    await asyncio.sleep(0)
    late = link.send(BEFORE, ask(9), timeout_s=LONG_S)
    gate.open(1)
    assert (await futures[1]).log_start_offset == 1
    assert not stopping.done()
    gate.open(0)
    assert (await futures[0]).log_start_offset == 0
    await stopping
    with pytest.raises(LinkLost):
        await late
    assert gate.begun == [0, 1]


async def test_raw_frames_of_a_stranger_are_answered_by_their_ids(node: InternalNode, gate: Gate) -> None:
    client = await node.client()
    for number, correlation_id in ((0, 2**31 - 1), (1, -5)):
        client.send_frame(encode_request(BEFORE, 0, correlation_id, None, ask(number)))
    await until(lambda: len(gate.begun) == 2)
    gate.open(1)
    gate.open(0)
    assert [await client.answer(BEFORE, 0) for _ in range(2)] == [
        (-5, DeleteBeforeResponse(log_start_offset=1)),
        (2**31 - 1, DeleteBeforeResponse(log_start_offset=0)),
    ]
    await client.close()
